"""Cluster-Margin: margins, spread over clusters."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import steepest
from steepest.errors import InputError
from steepest.strategies import Support, cluster_margin, create
from steepest.strategies.algorithms.linkage import average_linkage


@pytest.fixture
def model():
    torch.manual_seed(0)
    return nn.Linear(4, 3)


@pytest.fixture
def pool():
    return torch.randn(80, 4, generator=torch.Generator().manual_seed(1))


def choose(model, pool, k, *, support=None, seed=0, **options):
    return steepest.select(
        model, pool, k, "cluster-margin", options=options, support=support, seed=seed,
        progress=False,
    )  # fmt: skip


def by_margin(model, pool, k):
    return steepest.select(model, pool, k, "margin", progress=False)


def in_clusters(labels):
    """Return features that put samples into these clusters."""
    return Support(features={i: 100.0 * torch.eye(10)[c] for i, c in enumerate(labels)})


@pytest.mark.parametrize("threshold", [1e9, 0.0])
def test_one_cluster_or_one_for_each_sample_is_margin_sampling(model, pool, threshold):
    picks = choose(model, pool, 12, threshold=threshold, ratio=3.0)
    wanted = by_margin(model, pool, 12)
    assert picks.ids == wanted.ids
    np.testing.assert_allclose(picks.scores, wanted.scores)


def test_counts_of_clusters_differ_by_one_at_most_until_one_is_exhausted(model, pool):
    labels = np.array([0] * 40 + [1] * 25 + [2] * 15)
    for k in (5, 17, 30):
        picks = choose(model, pool, k, support=in_clusters(labels), threshold=1.0, ratio=100.0)
        counts = np.bincount(labels[list(picks.ids)], minlength=3)
        assert counts.max() - counts.min() <= 1
    picks = choose(model, pool, 60, support=in_clusters(labels), threshold=1.0, ratio=100.0)
    assert np.bincount(labels[list(picks.ids)]).tolist() == [22, 23, 15]


def test_clusters_with_the_fewest_members_come_first_and_give_small_margins(model, pool):
    labels = np.array([0] * 40 + [1] * 25 + [2] * 15)
    picks = choose(model, pool, 6, support=in_clusters(labels), threshold=1.0, ratio=100.0)
    assert labels[list(picks.ids)].tolist() == [2, 1, 0, 2, 1, 0]
    ranked = by_margin(model, pool, 80).ids
    for cluster in range(3):
        mine = [i for i in picks.ids if labels[i] == cluster]
        assert mine == [i for i in ranked if labels[i] == cluster][:2]


@pytest.mark.parametrize(("place", "in_question"), [(2, True), (3, False)])
def test_the_number_in_question_is_rounded_up(model, pool, place, in_question):
    # Of 1.25 · 2 = 2.5 samples there are three, and whoever is alone in a cluster comes first.
    alone = by_margin(model, pool, 4).ids[place]
    support = in_clusters([int(i == alone) for i in range(80)])
    picks = choose(model, pool, 2, support=support, threshold=1.0)
    assert (alone in picks.ids) == in_question


@pytest.mark.parametrize("picks", ["margin", "random"])
def test_only_the_smallest_margins_come_into_question(model, pool, picks):
    wanted = set(by_margin(model, pool, 30).ids)
    found = [choose(model, pool, 20, ratio=1.5, picks=picks, seed=s).ids for s in range(3)]
    assert all(set(ids) <= wanted for ids in found)


def test_random_members_are_the_seeds(model, pool):
    labels = np.array([0, 1] * 40)
    one, same, other = (
        choose(model, pool, 6, support=in_clusters(labels), picks="random", ratio=9.0, seed=seed)
        for seed in (0, 0, 1)
    )
    assert one.ids == same.ids != other.ids


def test_k_clusters_are_left_by_default(model, pool):
    labels = np.array([0] * 60 + [1] * 10 + [2] * 5 + [3] * 5)
    picks = choose(model, pool, 4, support=in_clusters(labels), ratio=20.0)
    assert sorted(labels[list(picks.ids)]) == [0, 1, 2, 3]


def test_micro_clusters_find_the_same_blobs(model):
    torch.manual_seed(3)
    blob = torch.arange(6).repeat_interleave(50)
    rows = 50 * torch.eye(6)[blob] + torch.randn(300, 6) / 10
    support, pool = Support(features=dict(enumerate(rows))), torch.randn(300, 4)
    exact = choose(model, pool, 12, support=support, threshold=5.0, ratio=25.0)
    coarse = choose(model, pool, 12, support=support, threshold=5.0, ratio=25.0, max_points=60)
    assert coarse.ids == exact.ids
    assert np.bincount(blob[list(exact.ids)]).tolist() == [2] * 6


def test_label_maps_have_the_mean_margin_of_their_positions():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 3, 1))
    images = torch.randn(30, 1, 5, 5)
    picks = choose(net, images, 7, threshold=1e9)
    top = net(images[list(picks.ids)]).softmax(1).topk(2, 1).values
    wanted = (top[:, 1] - top[:, 0]).mean((1, 2))
    np.testing.assert_allclose(picks.scores, wanted.detach(), rtol=1e-4)
    assert picks.ids == by_margin(net, images, 7).ids


@pytest.mark.parametrize("options", [{"ratio": 0.9}, {"threshold": -1.0}, {"max_points": 10**6}])
def test_impossible_options_are_refused(options):
    with pytest.raises(InputError, match=f"cluster-margin: {next(iter(options))} must be"):
        create("cluster-margin", options)


def test_micro_clusters_count_as_many_samples_as_they_hold(model, pool, monkeypatch):
    seen = []

    def watch(centres, sizes):
        seen.append(sizes)
        return average_linkage(centres, sizes)

    monkeypatch.setattr(cluster_margin, "average_linkage", watch)
    choose(model, pool, 3, max_points=7)
    (sizes,) = seen
    assert len(sizes) <= 7
    assert sizes.sum() == len(pool)
