"""CoreGCN: k-centre in the space of the graph network."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import steepest
from steepest.errors import InputError
from steepest.selecting.options import SelectionOptions
from steepest.selecting.pool_view import open_view
from steepest.selecting.samples import as_samples
from steepest.strategies import create

LABELLED = tuple(range(0, 40, 4))


@pytest.fixture
def model():
    torch.manual_seed(0)
    return nn.Linear(5, 3).double()  # the features are the samples themselves


@pytest.fixture
def pool():
    generator = torch.Generator().manual_seed(1)
    return torch.randn(40, 5, generator=generator, dtype=torch.float64).abs()


def choose(model, pool, k, *, labelled=LABELLED, seed=0, **options):
    return steepest.select(
        model, pool, k, "core-gcn", options={"epochs": 10} | options, labelled=labelled,
        seed=seed, progress=False,
    )  # fmt: skip


def test_each_is_the_farthest_from_labelled_and_chosen_ones(model, pool):
    strategy = create("core-gcn", {"epochs": 10})
    with open_view(
        model, as_samples(pool, None), strategy, SelectionOptions(labelled=LABELLED, progress=False)
    ) as view:
        view.prepared = nodes = strategy.prepare(view)
        found = strategy.choose(view, 10)
        again = [view.ids[i] for i in found.positions]
    places = torch.cat([nodes.hidden, nodes.logits[:, None]], 1)
    assert places.shape == (40, 129)
    centres = list(range(30, 40))
    for position, score in zip(found.positions, found.scores, strict=True):
        apart = torch.cdist(places[:30], places[centres]).amin(1)
        assert int(apart.argmax()) == position
        assert score == pytest.approx(float(apart.max()), rel=1e-6)
        centres.append(int(position))
    assert tuple(again) == choose(model, pool, 10).ids


def test_distances_never_rise_and_the_seed_decides(model, pool):
    one, same, other = (choose(model, pool, 30, seed=seed) for seed in (0, 0, 1))
    assert list(one.scores) == sorted(one.scores, reverse=True)
    assert one.scores == same.scores != other.scores


def test_a_copy_of_a_labelled_sample_is_chosen_last(model, pool):
    pool[1] = pool[0]
    assert choose(model, pool, 30).ids[-1] == 1


def test_without_labelled_samples_it_says_what_to_do(model, pool):
    with pytest.raises(InputError, match=r"core-gcn learns .* name some by --labelled FILE"):
        choose(model, pool, 3, labelled=None)


def test_a_net_for_label_maps_is_chosen_for_by_its_mean_features():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 3, 1))
    picks = choose(net, torch.randn(20, 1, 5, 5), 4, labelled=(0, 1))
    assert len(set(picks.ids)) == 4
    assert np.isfinite(picks.scores).all()


def test_global_randomness_is_left_alone(model, pool):
    before = torch.get_rng_state()
    choose(model, pool, 3)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("options", [{"hidden": 0}, {"dropout": -0.1}])
def test_impossible_options_are_refused(options):
    with pytest.raises(InputError, match=f"core-gcn: {next(iter(options))} must be"):
        create("core-gcn", options)
