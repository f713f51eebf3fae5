"""Choosing what a discriminator can tell from the labelled images."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from model_state import same, snapshot
from torch import nn

import steepest
from steepest.core.seeds import generator
from steepest.errors import InputError, NonFiniteError, SettingWarning
from steepest.models import build
from steepest.selecting.options import SelectionOptions
from steepest.selecting.pool_view import open_view
from steepest.selecting.samples import as_samples
from steepest.strategies import Support, create

pytestmark = pytest.mark.filterwarnings("ignore::steepest.errors.RegimeWarning")

TINY = {"width": 4, "iterations": 4, "batch_size": 8, "latent": 4}


def modes(*counts, seed=0):
    """Images that are bright on the left, then images that are dark there."""
    random = generator(seed, "modes")
    images = torch.randn(sum(counts), 1, 8, 8, generator=random) * 0.3
    sign = torch.cat([torch.ones(counts[0]), -torch.ones(counts[1])])
    images[:, 0, :, :4] += sign[:, None, None]
    return images


@pytest.fixture
def model():
    return build("small-cnn", 3, 1, seed=0)


def score(model, pool, options=TINY, **more):
    given = {"labelled": range(8), "progress": False, "seed": 1, **more}
    return steepest.score(model, pool, "vaal", options=options, **given)


def adversary_of(model, pool, options, labelled):
    strategy = create("vaal", options)
    how = SelectionOptions(labelled=labelled, progress=False)
    with open_view(model, as_samples(pool), strategy, how) as view:
        return strategy.prepare(view)


def accuracy(adversary, pool):
    """Return how many of two pools of 40 images are told for what they are."""
    said = adversary.logits(pool) > 0
    return float(torch.cat([said[:40], ~said[40:]]).double().mean())


def test_the_far_mode_is_chosen_and_told_from_the_labelled_one(model):
    pool = modes(90, 20)
    options = {"width": 8, "iterations": 60, "batch_size": 16, "beta": 0.1}
    picks = steepest.select(
        model, pool, 15, "vaal", options=options, labelled=range(30), progress=False
    )
    assert sum(i >= 90 for i in picks.ids) >= 14


def test_pools_that_differ_are_told_apart(model):
    pool = modes(40, 40)
    options = {**TINY, "width": 8, "iterations": 60, "beta": 0.1, "adversary": 0.1}
    found = adversary_of(model, pool, options, range(40))
    assert accuracy(found, pool) > 0.9
    assert found.kl_per_sample > 1


def test_the_published_normalisation_hides_what_all_images_of_a_pool_share(model):
    pool = modes(40, 40)
    options = {**TINY, "width": 8, "iterations": 60, "beta": 0.1, "adversary": 0.1}
    found = adversary_of(model, pool, {**options, "separate_norm": True}, range(40))
    assert accuracy(found, pool) < 0.7


def test_the_published_reduction_collapses_the_codes_and_says_so(model):
    pool = modes(40, 40)
    options = {"width": 8, "iterations": 60, "batch_size": 16, "kl_reduction": "sum"}
    with pytest.warns(SettingWarning, match="have collapsed, .* close to random"):
        found = adversary_of(model, pool, options, range(40))
    assert found.kl_per_sample < 0.9
    means, _ = found.networks.vae.encode(found.scaling.apply(pool))
    assert means.detach().abs().mean() < 0.3


def test_the_sound_reduction_does_not_collapse(model):
    options = {"width": 8, "iterations": 60, "batch_size": 16}
    assert adversary_of(model, modes(40, 40), options, range(40)).kl_per_sample > 5


@pytest.mark.parametrize("size", [1, 5])
def test_scores_do_not_depend_on_the_batch_size(model, size):
    pool = modes(12, 8).double()
    whole = score(model.double(), pool).values
    parts = score(model, pool, batch_size=size).values
    np.testing.assert_allclose(parts, whole, rtol=1e-9)


def test_scores_do_not_depend_on_the_order_of_the_pool(model):
    pool, turned = modes(12, 8).double(), torch.arange(19, -1, -1)
    straight = score(model.double(), pool)
    back = score(model, pool[turned], ids=turned.tolist())
    wanted = dict(zip(straight.ids, straight.values, strict=True))
    np.testing.assert_allclose(back.values, [wanted[i] for i in back.ids], rtol=1e-9)


def test_the_seed_decides_and_everything_is_left_as_found(model):
    pool = modes(12, 8)
    model.train()
    before, state = snapshot(model), torch.random.get_rng_state()
    first = score(model, pool).values
    assert same(snapshot(model), before)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert np.array_equal(score(model, pool).values, first)
    assert not np.array_equal(score(model, pool, seed=2).values, first)


def test_the_model_and_the_labels_have_no_part_in_it(model):
    pool = modes(12, 8)
    other = build("small-cnn", 3, 1, seed=9)
    targets = Support(targets={i: i % 3 for i in range(8)})
    wanted = score(model, pool).values
    assert np.array_equal(score(other, pool).values, wanted)
    assert np.array_equal(score(model, pool, support=targets).values, wanted)


def test_all_unlabelled_images_are_learnt_from_and_the_candidates_are_scored(model):
    part = score(model, modes(12, 8), subset=5)
    assert len(part) == 5
    assert np.isfinite(part.values).all()


def test_by_default_the_candidates_are_seen_a_hundred_times(model, monkeypatch):
    from steepest.strategies import vaal

    plans = []
    monkeypatch.setattr(vaal, "train_adversary", lambda *given, **_: plans.append(given[4]))
    adversary_of(model, modes(12, 8), {"batch_size": 10}, range(8))
    assert plans[0].iterations == 100 * 20 // 10


def test_labelled_images_may_come_from_a_pool_of_their_own(model):
    known = Support(labelled=modes(6, 0, seed=3))
    found = score(model, modes(6, 6), labelled=None, support=known)
    assert np.isfinite(found.values).all()
    assert len(found) == 12


@pytest.mark.filterwarnings("ignore:.*have collapsed")
def test_volumes_large_images_and_one_sample_can_be_chosen_from():
    random = generator(0, "shapes")
    flat = nn.Sequential(nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(4, 3))
    deep = nn.Sequential(nn.AdaptiveAvgPool3d(2), nn.Flatten(), nn.Linear(8, 3))
    for net, shape in ((flat, (9, 13)), (flat, (100, 70)), (deep, (6, 8, 7))):
        pool = torch.randn(9, 1, *shape, generator=random)
        found = score(net, pool, {**TINY, "width": 2, "image_size": 16})
        assert len(found) == 1
        assert np.isfinite(found.values).all()


def test_it_works_where_gradients_are_switched_off(model):
    pool = modes(12, 8)
    wanted = score(model, pool).values
    with torch.no_grad():
        assert np.array_equal(score(model, pool).values, wanted)
    with torch.inference_mode():
        assert np.isfinite(score(model, pool).values).all()


def test_what_cannot_be_chosen_from_is_refused_in_one_line(model):
    with pytest.raises(InputError, match="by --labelled FILE, or in Python labelled="):
        score(model, modes(12, 8), labelled=None)
    linear = nn.Linear(5, 3)
    with pytest.raises(InputError, match=r"an autoencoder takes images \[N, C, H, W\]"):
        score(linear, torch.randn(12, 5))
    net = nn.Sequential(nn.Flatten(), nn.Linear(9, 3))
    with pytest.raises(InputError, match="at least 4 pixels"):
        score(net, torch.randn(12, 1, 3, 3))
    bad = modes(12, 8)
    bad[10, 0, 0, 0] = torch.nan
    with pytest.raises(NonFiniteError, match="sample 10"):
        score(model, bad)


def test_a_run_is_told_at_once_that_samples_are_no_images():
    strategy = create("vaal")
    with (
        open_view(
            nn.Linear(5, 3), as_samples(torch.randn(2, 5)), strategy, SelectionOptions()
        ) as view,
        pytest.raises(InputError, match="an autoencoder takes images"),
    ):
        strategy.check(view)


@pytest.mark.parametrize("option", ["latent", "iterations", "epochs", "batch_size", "width"])
def test_options_out_of_range_are_refused(option):
    with pytest.raises(InputError, match=f"vaal: {option} must be 1 or more, not 0"):
        create("vaal", {option: 0})


def test_one_option_brings_the_published_losses_back():
    published = {"kl_reduction": "sum", "separate_norm": True}
    plain, whole = create("vaal").options(), create("vaal", {"published": True}).options()
    assert whole == {**plain, **published, "published": True}
    assert create("vaal", whole).options() == whole  # As a record has it.
    with pytest.raises(InputError, match=r"published sets kl_reduction to '.*': leave one"):
        create("vaal", {"published": True, "kl_reduction": "sample"})
