"""ProbCover: what is covered, and what comes afterwards."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
import torch
from torch import nn

import steepest
from steepest.errors import InputError
from steepest.strategies import Support, create
from steepest.tasks import MultiLabel


@pytest.fixture
def model():
    torch.manual_seed(0)
    return nn.Linear(2, 3)  # the features are the samples themselves


def draw(count, seed=0):
    return torch.randn(count, 2, generator=torch.Generator().manual_seed(seed))


def choose(model, pool, k, radius=0.5, **more):
    options = {"radius": radius, "normalise": False} | more.pop("options", {})
    return steepest.select(model, pool, k, "probcover", options=options, progress=False, **more)


def near(pool, radius=0.5):
    return (torch.cdist(pool, pool) < radius).numpy()


@pytest.mark.parametrize("seed", range(4))
def test_it_covers_at_least_1_minus_1_by_e_of_the_best(model, seed):
    pool = draw(12, seed)
    covers = near(pool, 0.9)
    best = max(covers[list(some)].any(0).sum() for some in combinations(range(12), 3))
    picks = choose(model, pool, 3, radius=0.9, seed=seed)
    assert covers[list(picks.ids)].any(0).sum() >= (1 - np.exp(-1)) * best


def test_scores_are_what_each_covers_newly(model):
    pool = draw(40)
    picks = choose(model, pool, 6)
    covered = [near(pool)[list(picks.ids[:n])].any(0).sum() for n in range(7)]
    assert list(picks.scores) == np.diff(covered).tolist()
    assert covered == sorted(covered)


def test_what_labelled_samples_cover_does_not_count(model):
    pool = torch.cat([draw(30) / 20, 5 + draw(10, 1) / 20])
    assert choose(model, pool, 1).ids[0] < 30
    picks = choose(model, pool, 1, labelled=(4,))
    assert picks.ids[0] >= 30
    assert picks.scores == (10.0,)


def test_after_everything_is_covered_the_farthest_come_and_none_twice(model):
    pool = draw(30)
    picks = choose(model, pool, 30)
    assert sorted(picks.ids) == list(range(30))
    assert list(picks.scores) == sorted(picks.scores, reverse=True)
    first = next(n for n, score in enumerate(picks.scores) if score < 1)
    assert near(pool)[list(picks.ids[:first])].any(0).all()
    taken, left = list(picks.ids[:first]), list(picks.ids[first:])
    apart = torch.cdist(pool[left], pool[taken]).amin(1)
    assert int(apart.argmax()) == 0
    assert picks.scores[first] == pytest.approx(float(apart.max()) / 0.5, rel=1e-4)


def test_a_pool_that_labelled_samples_cover_is_chosen_from_by_distance(model):
    pool = draw(20)
    picks = choose(model, pool, 5, radius=100.0, labelled=(0, 1))
    assert len(set(picks.ids)) == 5
    assert max(picks.scores) < 1
    apart = torch.cdist(pool, pool[:2]).amin(1)
    assert picks.ids[0] == int(apart.argmax())


def test_the_automatic_radius_separates_blobs():
    torch.manual_seed(0)
    net = nn.Linear(4, 4)
    pool = (4 * torch.eye(4).repeat_interleave(15, 0)) + torch.randn(60, 4) / 10
    picks = steepest.select(net, pool, 4, "probcover", progress=False)
    assert sorted(i // 15 for i in picks.ids) == [0, 1, 2, 3]


@pytest.mark.parametrize("given", [False, True], ids=["model", "features"])
def test_the_automatic_radius_counts_labels_where_a_sample_may_have_several(given):
    torch.manual_seed(0)
    net = nn.Linear(4, 4)
    # Two pairs of blobs: with a cluster for each pair, a ball would cover both of its blobs.
    middles = torch.tensor([[4.0, 0, 0, 0], [4, 1, 0, 0], [0, 0, 4, 0], [0, 0, 4, 1]])
    pool = middles.repeat_interleave(15, 0) + torch.randn(60, 4) / 50
    support = Support(features=dict(enumerate(pool)) if given else {})
    picks = steepest.select(
        net, pool, 4, "probcover", task=MultiLabel(4), support=support, progress=False
    )
    assert sorted(i // 15 for i in picks.ids) == [0, 1, 2, 3]
    assert min(picks.scores) > 10


def test_the_automatic_radius_works_with_features_of_ones_own(model):
    features = dict(enumerate(draw(40, 3)))
    picks = choose(model, draw(40), 5, radius="auto", support=Support(features=features))
    plain = choose(model, torch.stack(list(features.values())), 5, radius="auto")
    assert picks.ids == plain.ids


def test_large_pools_are_refused_on_a_cpu_with_the_way_out(model):
    with pytest.raises(InputError, match=r"probcover compares all pairs of 30 .* set a subset"):
        choose(model, draw(30), 3, options={"limit": 29})
    assert len(choose(model, draw(30), 3, options={"limit": 29}, subset=29)) == 3
    assert create("probcover").limit == 100_000


def test_normalised_features_have_no_length(model):
    pool = draw(40)
    scaled = pool * torch.rand(40, 1).add(0.1)
    one, other = (
        choose(model, part, 8, radius=0.3, options={"normalise": True}) for part in (pool, scaled)
    )
    assert one.ids == other.ids
    assert choose(model, pool, 8, 0.3).ids != choose(model, scaled, 8, 0.3).ids


@pytest.mark.parametrize(
    "options", [{"radius": 0.0}, {"radius": -1}, {"purity": 0.0}, {"limit": 0}]
)
def test_impossible_options_are_refused(options):
    with pytest.raises(InputError, match=f"probcover: {next(iter(options))} must be"):
        create("probcover", options)
