"""Herding: what is weighed, by which kernels, and what a temperature does."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import steepest
from steepest.errors import InputError, UnknownNameError
from steepest.strategies import Support, create
from steepest.strategies.herding import standard_weights
from steepest.strategies.temperature import best_temperature, fit_head, held_out_logits

pytestmark = pytest.mark.filterwarnings("ignore::steepest.errors.RegimeWarning")


def normal(*shape, seed=0):
    draws = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=draws, dtype=torch.float64)


@pytest.fixture
def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 12), nn.Tanh(), nn.Linear(12, 3)).double()


def choose(model, pool, k, name="gradnorm-herding", **more):
    return steepest.select(model, pool, k, name, progress=False, **more)


def features_of(model, pool):
    return model[1](model[0](pool)).detach()


def last_layer_by_autograd(model, sample):
    """The root Fisher trace over the last layer: every label's gradient, weighted by its chance."""
    p = model(sample[None]).softmax(1)[0].detach()
    total = 0.0
    for label, chance in enumerate(p):
        loss = F.cross_entropy(model(sample[None]), torch.tensor([label]))
        gradients = torch.autograd.grad(loss, tuple(model[2].parameters()))
        total += float(chance) * sum(float(g.square().sum()) for g in gradients)
    return total**0.5


def plain_herding(z, w, k, labelled=(), reach=1.0):
    """The formula, from the matrix of all squared distances."""
    z = z / z.norm(dim=1, keepdim=True)
    free = [i for i in range(len(z)) if i not in labelled]
    table = (z[:, None] - z).square().sum(2)
    nearest = max(1, round(reach * len(free) / (k + len(labelled))))
    ranked = table[free][:, free].sort(dim=1).values
    width = ranked[:, min(nearest, len(free) - 1)].median()
    kernels = torch.exp(-table / (2 * width))
    chosen, gains = list(labelled), []

    def covered(centres):
        return float((w[free] * kernels[free][:, centres].amax(1)).sum()) if centres else 0.0

    for _ in range(k):
        left = [i for i in free if i not in chosen]
        gain = [covered([*chosen, i]) - covered(chosen) for i in left]
        chosen.append(left[int(np.argmax(gain))])
        gains.append(max(gain))
    return chosen[len(labelled) :], gains


@pytest.mark.parametrize("labelled", [(), (3, 9, 20)])
def test_the_default_weight_is_the_root_fisher_trace_of_the_last_layer(model, labelled):
    pool = normal(40, 4)
    w = torch.tensor([last_layer_by_autograd(model, x) for x in pool], dtype=torch.float64)
    free = [i for i in range(40) if i not in labelled]
    picks = choose(model, pool, 12, labelled=labelled)
    expected, gains = plain_herding(features_of(model, pool), w / w[free].mean(), 12, labelled)
    assert list(picks.ids) == expected
    np.testing.assert_allclose(picks.scores, gains, rtol=1e-9)


@pytest.mark.parametrize("weight", ["egl", "entropy-gradnorm", "entropy", "margin"])
def test_any_score_can_be_the_weight(model, weight):
    pool = normal(30, 4)
    scores = torch.from_numpy(steepest.score(model, pool, weight, progress=False).values)
    picks = choose(model, pool, 8, options={"weight": weight, "power": 2.0})
    lifted = scores - scores.min() if weight == "margin" else scores
    w = lifted**2 / (lifted**2).mean()
    expected, gains = plain_herding(features_of(model, pool), w, 8)
    assert list(picks.ids) == expected
    np.testing.assert_allclose(picks.scores, gains, rtol=1e-7)


def test_equal_weights_are_max_herding(model):
    pool = normal(40, 4)
    expected, gains = plain_herding(features_of(model, pool), torch.ones(40).double(), 9, (1, 2))
    for name, options in (("max-herding", {}), ("gradnorm-herding", {"weight": "equal"})):
        picks = choose(model, pool, 9, name, options=options, labelled=[1, 2])
        assert list(picks.ids) == expected
        np.testing.assert_allclose(picks.scores, gains, rtol=1e-9)


def test_reach_says_how_many_each_label_stands_for(model):
    pool = normal(40, 4)
    for reach in (0.3, 3.0):
        expected, _ = plain_herding(
            features_of(model, pool), torch.ones(40).double(), 8, reach=reach
        )
        assert list(choose(model, pool, 8, "max-herding", options={"reach": reach}).ids) == expected


def test_uncertainty_herding_weighs_by_margins_at_a_temperature(model):
    pool = normal(40, 4)
    top = (model(pool).detach() / 0.3).softmax(1).topk(2).values
    w = 1 - top[:, 0] + top[:, 1]
    expected, gains = plain_herding(features_of(model, pool), w / w.mean(), 10)
    picks = choose(model, pool, 10, "uncertainty-herding", options={"temperature": 0.3})
    assert list(picks.ids) == expected
    np.testing.assert_allclose(picks.scores, gains, rtol=1e-9)


def test_the_temperature_comes_from_the_labels(model):
    pool = normal(60, 4)
    known = range(30)
    targets = {i: int(pool[i, 0] > 0) for i in known}
    rows = features_of(model, pool)[:30]
    order = torch.tensor([i for i in _order(60, 5) if i < 30])
    labels = torch.tensor([targets[int(i)] for i in order])
    temperature = best_temperature(held_out_logits(rows[order], labels, 2, 5), labels)
    by_hand = choose(
        model, pool, 6, "uncertainty-herding", seed=5, labelled=known,
        options={"temperature": temperature},
    )  # fmt: skip
    found = choose(
        model, pool, 6, "uncertainty-herding", seed=5, support=Support(targets=targets),
    )  # fmt: skip
    assert found.ids == by_hand.ids
    np.testing.assert_allclose(found.scores, by_hand.scores, rtol=1e-12)
    assert found.options["temperature"] == "auto"


def _order(count, seed):
    from steepest.core.seeds import keyed_uniform

    return np.argsort(keyed_uniform(seed, "order of choosing", range(count))[:, 0], kind="stable")


def test_a_head_that_guesses_is_told_to_be_less_sure():
    rows, draws = normal(60, 40), torch.Generator().manual_seed(3)
    guesses = torch.randint(3, (60,), generator=draws)
    unsure = best_temperature(held_out_logits(rows, guesses, 3, 0), guesses)
    clear = rows[:, :3].argmax(1)
    assert unsure > 3 * best_temperature(held_out_logits(10 * rows[:, :3], clear, 3, 0), clear)


def test_the_head_is_the_penalised_maximum():
    rows, targets = normal(20, 3), torch.arange(20) % 3
    weights = fit_head(rows, targets, 3).requires_grad_()
    inputs = torch.cat([rows, torch.ones(20, 1).double()], 1)
    loss = F.cross_entropy(inputs @ weights, targets) + 0.5 * weights[:-1].square().sum() / 20
    (gradient,) = torch.autograd.grad(loss, weights)
    assert float(gradient.abs().max()) < 1e-4


def test_weights_have_a_mean_of_one_and_none_is_negative():
    values = torch.tensor([0.0, 1.0, 3.0]).double()
    assert standard_weights(values).tolist() == pytest.approx([0, 0.75, 2.25])
    assert standard_weights(values - 2).tolist() == pytest.approx([0, 0.75, 2.25])
    assert standard_weights(values * 1e300, 2.0).tolist() == pytest.approx([0, 0.3, 2.7])
    assert standard_weights(values * 0).tolist() == [1, 1, 1]


def test_witnesses_are_a_part_of_the_candidates_and_all_can_be_chosen(model):
    pool = normal(60, 4)
    few = choose(model, pool, 55, "max-herding", options={"witnesses": 20})
    assert len(set(few.ids)) == 55
    whole = choose(model, pool, 5, "max-herding")
    assert choose(model, pool, 5, "max-herding", options={"witnesses": 60}).ids == whole.ids
    order = _order(60, 0)[:20]
    z = F.normalize(features_of(model, pool), dim=1)
    ranked = (z[:, None] - z).square().sum(2).sort(dim=1).values
    kernels = torch.exp(-(z[order][:, None] - z).square().sum(2) / (2 * ranked[:, 12].median()))
    first = choose(model, pool, 5, "max-herding", options={"witnesses": 20}).ids[0]
    assert first == int(kernels.sum(0).argmax())


def test_label_maps_are_chosen_from_too():
    net = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 3, 1)).double()
    for name in ("gradnorm-herding", "max-herding", "uncertainty-herding"):
        assert len(set(choose(net, normal(7, 1, 4, 4), 7, name).ids)) == 7


@pytest.mark.parametrize("name", ["gradnorm-herding", "max-herding", "uncertainty-herding"])
def test_options_are_checked(name):
    with pytest.raises(InputError, match="reach must be above 0"):
        create(name, {"reach": 0.0})
    with pytest.raises(InputError, match="witnesses must be at least 1"):
        create(name, {"witnesses": 0})


def test_what_cannot_weigh_is_refused():
    with pytest.raises(InputError, match="without training for it"):
        create("gradnorm-herding", {"weight": "badge"})
    with pytest.raises(InputError, match="without training for it"):
        create("gradnorm-herding", {"weight": "vaal"})
    with pytest.raises(UnknownNameError, match="did you mean 'egl'"):
        create("gradnorm-herding", {"weight": "elg"})
    with pytest.raises(InputError, match="takes no options"):
        create("gradnorm-herding", {"weight_options": {"norm": "l2"}})
    with pytest.raises(InputError, match="power must be between"):
        create("gradnorm-herding", {"power": -1.0})
    with pytest.raises(InputError, match="temperature must be"):
        create("uncertainty-herding", {"temperature": 0.0})
