"""Choosing what a discriminator takes for uncertain."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from model_state import same, snapshot
from torch import nn

import steepest
from steepest.core.seeds import generator
from steepest.errors import InputError
from steepest.models import build
from steepest.selecting.options import SelectionOptions
from steepest.selecting.pool_view import open_view
from steepest.selecting.samples import as_samples
from steepest.strategies import Support, create, sraal
from steepest.strategies.sraal import object_uncertainty
from steepest.tasks import Segmentation

pytestmark = pytest.mark.filterwarnings(
    "ignore::steepest.errors.RegimeWarning", "ignore:.*have collapsed"
)

TINY = {"width": 4, "iterations": 4, "batch_size": 8, "latent": 4}
TARGETS = Support(targets={i: i % 3 for i in range(8)})
POOL = torch.randn(20, 1, 8, 8, generator=generator(0, "pool"))


@pytest.fixture
def model():
    return build("small-cnn", 3, 1, seed=0)


def score(model, pool=POOL, options=TINY, support=TARGETS, **more):
    given = {"labelled": range(8), "progress": False, "seed": 1, **more}
    return steepest.score(model, pool, "sraal", options=options, support=support, **given)


def given_to_training(model, monkeypatch, options=TINY, support=TARGETS, task=None):
    """Return what would be trained: the sides and the game."""
    seen = {}

    def keep(pool, make_networks, make_sides, game, plan, **more):
        class Rows:
            def in_order(self, values):
                return values

        seen.update(sides=make_sides(Rows(), Rows()), game=game, plan=plan)
        seen["networks"] = make_networks(1, (8, 8))

    monkeypatch.setattr(sraal, "train_adversary", keep)
    strategy = create("sraal", options)
    how = SelectionOptions(labelled=range(8), progress=False, support=support, task=task)
    with open_view(model, as_samples(POOL), strategy, how) as view:
        strategy.prepare(view)
        seen["ids"], seen["known"] = view.unlabelled.ids, view.labelled.ids
    return seen


def test_the_states_are_the_uncertainties_of_the_model(model, monkeypatch):
    seen = given_to_training(model, monkeypatch)
    shares = model.eval()(POOL[list(seen["ids"])]).double().softmax(1)
    wanted = object_uncertainty(shares)
    torch.testing.assert_close(seen["sides"].states, wanted, atol=1e-6, rtol=0)
    assert seen["sides"].targets.tolist() == [i % 3 for i in seen["known"]]


def test_the_autoencoder_strives_for_the_labelled_state_unless_as_published(model, monkeypatch):
    game = given_to_training(model, monkeypatch)["game"]
    assert (game.labelled_state, game.wanted_state) == (0.0, 0.0)
    game = given_to_training(model, monkeypatch, {**TINY, "official_sign": True})["game"]
    assert (game.labelled_state, game.wanted_state) == (0.0, 1.0)


def test_the_networks_are_the_published_ones(model, monkeypatch):
    nets = given_to_training(model, monkeypatch, {})["networks"]
    widths = [(m.in_features, m.out_features) for m in nets.discriminator.layers[::2]]
    assert widths == [(200, 512), (512, 512), (512, 512), (512, 512), (512, 1)]
    assert [m.in_features for m in nets.classifier[::2]] == [100, 1024, 256]
    assert nets.vae.mean.out_features == 200
    assert nets.vae.decoder[0].in_features == 100


def test_images_like_those_the_model_is_unsure_of_are_chosen():
    class Left(nn.Module):
        """Sure of bright images, at a loss with dark ones."""

        def forward(self, x):
            bright = x[:, 0, :, :4].mean((1, 2)).clamp_min(0) * 12
            return torch.stack([bright, torch.zeros_like(bright), torch.zeros_like(bright)], 1)

    pool = torch.randn(110, 1, 8, 8, generator=generator(0, "unsure")) * 0.3
    pool[:90, 0, :, :4] += 1
    pool[90:, 0, :, :4] -= 1
    known = Support(targets=dict.fromkeys(range(30), 0))
    options = {"width": 8, "iterations": 60, "batch_size": 16, "latent": 16, "beta": 0.1}
    picks = steepest.select(
        Left(), pool, 15, "sraal", options=options, support=known, labelled=range(30),
        progress=False,
    )  # fmt: skip
    assert sum(i >= 90 for i in picks.ids) >= 13
    assert list(picks.scores) == sorted(picks.scores, reverse=True)


@pytest.mark.parametrize("option", ["official_sign", "official_variance", "official_targets"])
def test_published_behaviours_are_options_that_change_the_outcome(model, option):
    plain, changed = score(model), score(model, options={**TINY, option: True})
    assert not np.array_equal(plain.values, changed.values)


def test_labels_matter_and_are_those_of_labelled_samples(model):
    other = Support(targets={i: (i + 1) % 3 for i in range(8)})
    assert not np.array_equal(score(model).values, score(model, support=other).values)


@pytest.mark.parametrize("size", [1, 5])
def test_scores_do_not_depend_on_the_batch_size(model, size):
    whole = score(model.double(), POOL.double()).values
    parts = score(model, POOL.double(), batch_size=size).values
    np.testing.assert_allclose(parts, whole, rtol=1e-9)


def test_scores_do_not_depend_on_the_order_of_the_pool(model):
    turned = torch.arange(19, -1, -1)
    straight = score(model.double(), POOL.double())
    back = score(model, POOL.double()[turned], ids=turned.tolist())
    wanted = dict(zip(straight.ids, straight.values, strict=True))
    np.testing.assert_allclose(back.values, [wanted[i] for i in back.ids], rtol=1e-6)


def test_the_seed_decides_and_everything_is_left_as_found(model):
    model.train()
    before, state = snapshot(model), torch.random.get_rng_state()
    first = score(model).values
    assert same(snapshot(model), before)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert np.array_equal(score(model).values, first)
    assert not np.array_equal(score(model, seed=2).values, first)


def test_what_is_missing_is_said_in_one_line(model):
    with pytest.raises(InputError, match=r"support=Support\(targets="):
        score(model, support=None)
    with pytest.raises(InputError, match="by --labelled FILE, or in Python labelled="):
        score(model, support=None, labelled=None)
    with pytest.raises(InputError, match="sample 2 says class 3, but the classes are 0 to 2"):
        score(model, support=Support(targets=dict.fromkeys(range(8), 3)))
    several = {i: torch.tensor([0, 1]) for i in range(8)}
    with pytest.raises(
        InputError, match=r"shape \[2\], where the model predicts one class: .*'vaal'"
    ):
        score(model, support=Support(targets=several))


class Pixels(nn.Module):
    """Labels every pixel with one of three classes."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.body = nn.Conv2d(1, 3, 3, padding=1)

    def forward(self, x):
        return self.body(x)


def maps(seed=0):
    drawn = torch.randint(0, 4, (8, 8, 8), generator=generator(seed, "maps"))
    drawn[drawn == 3] = 255
    drawn[5] = 255
    return Support(targets=dict(enumerate(drawn.to(torch.uint8))))


def test_label_maps_teach_shares_of_classes_and_mean_uncertainties(monkeypatch):
    model, known = Pixels(), maps()
    seen = given_to_training(model, monkeypatch, support=known, task=Segmentation(3))
    pixels = model(POOL[list(seen["ids"])]).double().softmax(1)
    each = object_uncertainty(pixels.movedim(1, -1).reshape(-1, 3)).reshape(-1, 64)
    torch.testing.assert_close(seen["sides"].states, each.mean(1), atol=1e-6, rtol=0)
    for sample, shares in zip(seen["known"], seen["sides"].targets, strict=True):
        counts = [int((known.targets[sample] == c).sum()) for c in range(3)]
        assert shares.tolist() == [count / max(1, sum(counts)) for count in counts]
        assert sum(counts) or sample == 5
    assert seen["networks"].classifier[-1].out_features == 3


def test_label_maps_are_learnt_from_whatever_the_batch_size():
    model, images = Pixels().double(), POOL.double()
    whole, part = (
        score(model, images, support=maps(), task=Segmentation(3), batch_size=size).values
        for size in ("auto", 3)
    )
    np.testing.assert_allclose(part, whole, rtol=1e-9)
    other = score(model, images, support=maps(seed=1), task=Segmentation(3)).values
    assert not np.array_equal(whole, other)


def test_maps_that_are_none_of_the_model_are_refused():
    with pytest.raises(InputError, match=r"sample 2 says class 7, .* and 255 where none is known"):
        score(Pixels(), support=Support(targets={2: torch.full((8, 8), 7)}), task=Segmentation(3))
    with pytest.raises(InputError, match=r"shape \[\], where the model predicts a map .*\[8, 8\]"):
        score(Pixels(), task=Segmentation(3))


@pytest.mark.parametrize(
    ("options", "said"), [({"latent": 5}, "latent must be even"), ({"lr": -1.0}, "lr must be 0")]
)
def test_options_out_of_range_are_refused(options, said):
    with pytest.raises(InputError, match=f"sraal: {said}"):
        create("sraal", options)


def test_the_learning_rate_falls_by_the_published_factor(model, monkeypatch):
    assert given_to_training(model, monkeypatch)["plan"].decay == 0.85


@pytest.mark.parametrize(
    ("iterations", "decays"), [(1, 0), (20, 19), (31, 15), (53, 26), (60, 29), (20_000, 29)]
)
def test_the_learning_rate_falls_at_even_distances_at_most_thirty_times(
    iterations, decays, model, monkeypatch
):
    plan = given_to_training(model, monkeypatch, {**TINY, "iterations": iterations})["plan"]
    assert (plan.iterations - 1) // plan.decay_every == decays <= 30


def test_one_option_brings_the_published_losses_back():
    published = {
        "kl_reduction": "sample",
        "separate_norm": True,
        "official_sign": True,
        "official_variance": True,
        "official_targets": True,
    }
    plain, whole = create("sraal").options(), create("sraal", {"published": True}).options()
    assert whole == {**plain, **published, "published": True}
    assert create("sraal", whole).options() == whole  # As a record has it.
    with pytest.raises(InputError, match=r"published sets kl_reduction to '.*': leave one"):
        create("sraal", {"published": True, "kl_reduction": "sum"})
