"""Gradient norms spread over the feature space."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import steepest
from steepest.core.seeds import generator
from steepest.errors import InputError, UnknownNameError
from steepest.strategies import create
from steepest.strategies.algorithms.d2_sampling import d2_sample
from steepest.strategies.algorithms.k_centre import k_centre

pytestmark = pytest.mark.filterwarnings("ignore::steepest.errors.RegimeWarning")


def normal(*shape, seed=0):
    draws = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=draws, dtype=torch.float64)


@pytest.fixture
def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3)).double()


def choose(model, pool, k, **more):
    return steepest.select(model, pool, k, "gradnorm-spread", progress=False, **more)


def places_of(model, pool, scorer, power=1.0):
    norms = steepest.score(model, pool, scorer, progress=False).values
    features = model[1](model[0](pool)).detach()
    shares = torch.from_numpy(norms / norms.max()) ** power
    return shares[:, None] * features / features.norm(dim=1, keepdim=True)


@pytest.mark.parametrize(
    ("criterion", "scorer"),
    [
        ("entropy", "entropy-gradnorm"),
        ("fisher", "fisher-gradnorm"),
        ("egl", "egl"),
        ("expected", "expected-gradnorm"),
    ],
)
def test_k_centre_takes_the_farthest_norm_times_direction(model, criterion, scorer):
    pool = normal(25, 4)
    places = places_of(model, pool, scorer)
    expected = k_centre(places, 9, centres=torch.zeros_like(places[:1]))
    picks = choose(model, pool, 9, options={"criterion": criterion, "method": "k-centre"})
    assert list(picks.ids) == expected.positions.tolist()
    np.testing.assert_allclose(picks.scores, expected.scores, rtol=1e-9)


@pytest.mark.parametrize("power", [0.5, 2.0])
def test_the_first_has_the_highest_norm_and_distances_fit(model, power):
    pool = normal(25, 4)
    places = places_of(model, pool, "entropy-gradnorm", power)
    picks = choose(model, pool, 12, options={"power": power})
    assert picks.ids[0] == int(places.norm(dim=1).argmax())
    for n in range(1, 12):
        before = places[list(picks.ids[:n])]
        distance = float(torch.cdist(places[picks.ids[n]][None], before).min())
        assert picks.scores[n] == pytest.approx(distance, rel=1e-7)


def test_draws_are_those_of_d2_sampling(model):
    pool = normal(25, 4)
    picks = choose(model, pool, 10, seed=2)
    order = torch.as_tensor(_order_of_choosing(25, 2))
    places = places_of(model, pool, "entropy-gradnorm")[order]
    expected = d2_sample(places, 10, generator(2, "gradnorm-spread"))
    assert list(picks.ids) == order[expected.positions].tolist()
    assert choose(model, pool, 10, seed=3).ids != picks.ids


def _order_of_choosing(count, seed):
    from steepest.core.seeds import keyed_uniform

    return np.argsort(keyed_uniform(seed, "order of choosing", range(count))[:, 0], kind="stable")


def test_near_copies_are_not_taken_together(model):
    pool = normal(12, 4)
    best = steepest.select(model, pool, 1, "entropy-gradnorm", progress=False).ids[0]
    copies = torch.cat([pool, pool[best].repeat(6, 1)])
    plain = steepest.select(model, copies, 4, "entropy-gradnorm", progress=False).ids
    assert len({*plain} & {best, *range(12, 18)}) == 4
    spread = choose(model, copies, 4).ids
    assert len({*spread} & {best, *range(12, 18)}) == 1


def test_samples_without_features_or_gradients_come_last():
    head = nn.Linear(3, 2, dtype=torch.float64)
    pool = normal(8, 3)
    pool[:4] = 0
    picks = choose(nn.Sequential(nn.Identity(), head), pool, 8, options={"method": "k-centre"})
    assert set(picks.ids[:4]) == {4, 5, 6, 7}
    assert not any(picks.scores[4:])


def test_maps_are_chosen_from_too():
    model = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 3, 1)).double()
    assert len(set(choose(model, normal(7, 1, 4, 4), 7).ids)) == 7


def test_options_reach_the_criterion_and_rebuild_it():
    made = create("gradnorm-spread", {"criterion": "egl", "criterion_options": {"layers": "last"}})
    assert made.scorer == create("egl", {"layers": "last"})
    assert create("gradnorm-spread", made.options()) == made


def test_options_are_checked():
    with pytest.raises(UnknownNameError, match="did you mean 'fisher'"):
        create("gradnorm-spread", {"criterion": "fishr"})
    with pytest.raises(UnknownNameError, match="did you mean 'k-centre'"):
        create("gradnorm-spread", {"method": "k-center"})
    with pytest.raises(InputError, match="power must be between"):
        create("gradnorm-spread", {"power": -1.0})
    with pytest.raises(UnknownNameError, match="unknown key"):
        create("gradnorm-spread", {"criterion_options": {"nrom": "l2"}})
