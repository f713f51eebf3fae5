"""TypiClust on blobs."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import steepest
from steepest.errors import InputError, NonFiniteError
from steepest.strategies import Support, create

BLOBS, SIZE = 5, 20


@pytest.fixture
def model():
    torch.manual_seed(0)
    return nn.Linear(BLOBS, 3)  # the features are the samples themselves


@pytest.fixture
def pool():
    """Well separated blobs of equal size, the first member of each in the middle."""
    generator = torch.Generator().manual_seed(0)
    around = torch.randn(BLOBS, SIZE, BLOBS, generator=generator)
    around[:, 0] *= 0.05
    return (10 * torch.eye(BLOBS)[:, None] + around / 4).flatten(0, 1)


def choose(model, pool, k, **more):
    return steepest.select(model, pool, k, "typiclust", progress=False, **more)


def blobs_of(picks):
    return [i // SIZE for i in picks.ids]


@pytest.mark.parametrize("seed", range(3))
def test_each_of_equal_blobs_gives_one_from_its_densest_part(model, pool, seed):
    picks = choose(model, pool, BLOBS, seed=seed)
    assert sorted(blobs_of(picks)) == list(range(BLOBS))
    for i in picks.ids:
        blob = pool[i // SIZE * SIZE :][:SIZE]
        apart = torch.cdist(blob, blob).sort(1).values[:, 1:11].mean(1)
        assert int(apart.argsort().argsort()[i % SIZE]) == 0


@pytest.mark.parametrize("labelled", [(3,), (3, 45, 99)])
def test_blobs_with_labels_wait_for_the_others(model, pool, labelled):
    known = {i // SIZE for i in labelled}
    picks = choose(
        model, pool, BLOBS - len(labelled), labelled=labelled, options={"max_clusters": BLOBS}
    )
    assert sorted(blobs_of(picks)) == sorted(set(range(BLOBS)) - known)
    more = choose(model, pool, BLOBS, labelled=labelled, options={"max_clusters": BLOBS})
    assert set(blobs_of(more)[-len(labelled) :]) == known


def test_larger_clusters_come_first(model, pool):
    thinned = torch.cat([pool[:8], pool[20:35], pool[40:60]])
    picks = choose(model, thinned, 3)
    assert [sum(i >= start for start in (8, 23)) for i in picks.ids] == [2, 1, 0]


def test_clusters_go_round_until_enough_are_chosen(model, pool):
    picks = choose(model, pool, 4 * BLOBS, options={"max_clusters": BLOBS})
    counts = np.bincount(blobs_of(picks), minlength=BLOBS)
    assert counts.tolist() == [4] * BLOBS
    first = blobs_of(picks)[:BLOBS]
    assert blobs_of(picks) == first * 4


def test_small_clusters_wait_until_the_others_have_nothing_left(model, pool):
    some = torch.cat([pool[:4], pool[20:40]])  # four of one blob are too few
    options = {"max_clusters": 2}
    assert min(choose(model, some, 20, options=options).ids) >= 4
    everyone = choose(model, some, 24, options=options)
    assert set(everyone.ids[20:]) == {0, 1, 2, 3}
    early = choose(model, some, 2, options={"min_size": 4, "max_clusters": 2})
    assert min(early.ids) < 4


def test_squared_distances_are_an_option(model, pool):
    plain, published = (
        choose(model, pool, BLOBS, options={"distances": distances})
        for distances in ("l2", "squared")
    )
    assert plain.scores != published.scores


def test_features_of_ones_own_are_taken_instead(model, pool):
    swapped = pool.flip(0)
    features = {i: swapped[i] for i in range(len(pool))}
    given = choose(model, torch.zeros_like(pool), BLOBS, support=Support(features=features))
    assert given.ids == choose(model, swapped, BLOBS).ids


def test_features_that_are_not_finite_name_their_sample(model, pool):
    features = dict(enumerate(pool.clone()))
    features[7][2] = torch.nan
    with pytest.raises(NonFiniteError, match="features of sample 7 "):
        choose(model, pool, 3, support=Support(features=features))


def test_a_net_for_label_maps_is_chosen_for_by_its_mean_features():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 3, 1))
    assert len(set(choose(net, torch.randn(30, 1, 5, 5), 4).ids)) == 4


@pytest.mark.parametrize("option", ["max_clusters", "min_size", "neighbours"])
def test_numbers_have_to_be_positive(option):
    with pytest.raises(InputError, match=f"typiclust: {option} must be at least 1"):
        create("typiclust", {option: 0})
