"""Query by committee: the divergence of its members, and what it takes to convene one."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
import torch
from model_state import same, snapshot
from torch import nn

import steepest
from steepest.errors import InputError, ModelError
from steepest.strategies import Support, create
from steepest.strategies.algorithms import top_k
from steepest.strategies.algorithms.knapsack import choose_within_budget
from steepest.strategies.disagreement import TIE
from steepest.tasks.multi_label import MultiLabel

pytestmark = pytest.mark.filterwarnings("ignore::steepest.errors.RegimeWarning")


def member(seed, classes=4):
    torch.manual_seed(seed)
    layers = nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, classes)
    return nn.Sequential(*layers).double()


def points(n=14):
    return torch.randn(n, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(1)) * 4


def score(model, x, members, measure="js", **more):
    support = Support(members=members)
    options = {"measure": measure}
    return steepest.score(
        model, x, "qbc", options=options, support=support, progress=False, **more
    ).values


def test_it_is_the_jensen_shannon_divergence_of_all_members():
    models = [member(i).eval() for i in range(3)]
    x = points()
    with torch.no_grad():
        p = torch.stack([m(x).softmax(1) for m in models])
    mean = p.mean(0)
    # The mean divergence of members from their mean is the same thing.
    wanted = (p * (p.log() - mean.log())).sum(2).mean(0)
    np.testing.assert_allclose(score(models[0], x, models[1:]), wanted, rtol=1e-9, atol=1e-14)
    entropy = -(mean * mean.log()).sum(1)
    found = score(models[0], x, models[1:], "mean-entropy")
    np.testing.assert_allclose(found, entropy, rtol=1e-9)


def test_members_may_be_of_another_precision():
    model, other, x = member(0), member(1), points()
    found = score(model, x, [copy.deepcopy(other).float()])
    np.testing.assert_allclose(found, score(model, x, [other]), rtol=1e-4, atol=1e-6)


def test_identical_members_do_not_disagree():
    model = member(0)
    twins = [copy.deepcopy(model), copy.deepcopy(model)]
    assert (score(model, points(), twins) == 0).all()
    assert (score(model, points(), twins, "variation-ratio") <= TIE).all()


def test_divergence_is_at_most_the_logarithm_of_the_committee():
    class Sure(nn.Module):
        def __init__(self, answer):
            super().__init__()
            self.answer = answer

        def forward(self, x):
            return 99.0 * nn.functional.one_hot(torch.full((len(x),), self.answer), 4).to(x)

    found = score(Sure(0), points(3), [Sure(1), Sure(2)])
    np.testing.assert_allclose(found, math.log(3), rtol=1e-9)
    random = score(member(0), points(200) * 9, [member(1), member(2)])
    assert random.min() >= 0
    assert random.max() <= math.log(3)


def test_the_variation_ratio_counts_votes_and_ranks_ties_by_entropy():
    models = [member(i).eval() for i in range(5)]
    x = points(40)
    with torch.no_grad():
        p = torch.stack([m(x).softmax(1) for m in models])
    votes = nn.functional.one_hot(p.argmax(2), 4).sum(0).amax(1)
    found = score(models[0], x, models[1:], "variation-ratio")
    np.testing.assert_allclose(found, 1 - votes / 5, atol=TIE / 5)
    assert len(np.unique(found)) == 40
    mean = p.mean(0)
    entropy = -(mean * mean.log()).sum(1).numpy()
    assert found.argsort().tolist() == np.lexsort((entropy, 1 - votes.numpy() / 5)).tolist()
    # Nor are they taken for rounding, which chance would rank, when the best are chosen.
    chosen = top_k(found, range(40), 40, 0)
    tied = np.diff(votes.numpy()[chosen]) == 0
    assert np.diff(entropy[chosen])[tied].max() < 1e-3


def test_dense_and_multi_label_predictions_average_over_positions():
    torch.manual_seed(0)
    one, two = nn.Conv2d(2, 3, 1).double(), nn.Conv2d(2, 3, 1).double()
    x = torch.randn(4, 2, 5, 5, dtype=torch.float64)
    with torch.no_grad():
        p = torch.stack([one(x).softmax(1), two(x).softmax(1)])
    wanted = (p * (p.log() - p.mean(0).log())).sum(2).mean(0).mean((1, 2))
    np.testing.assert_allclose(score(one, x, [two]), wanted, rtol=1e-9, atol=1e-14)
    found = score(member(0), points(), [member(1)], task=MultiLabel(classes=4))
    assert found.shape == (14,)
    assert found.min() > 0


def test_members_are_evaluated_and_left_as_found():
    model, other = member(0).train(), member(1).train()
    before = snapshot(other)
    whole = score(model, points(), [other])
    split = score(model, points(), [other], batch_size=3)
    np.testing.assert_allclose(split, whole, rtol=1e-9)
    assert same(snapshot(other), before)


def test_without_members_the_remedy_is_said():
    with pytest.raises(InputError, match=r"Support\(members=\[\.\.\.\]\)"):
        steepest.select(member(0), points(), 2, "qbc", progress=False)


def test_a_member_of_another_task_is_refused():
    with pytest.raises(ModelError, match=r"member 2 of the committee gives logits \[14, 5\]"):
        score(member(0), points(), [member(1), member(2, classes=5)])


def test_the_size_is_what_an_experiment_trains():
    assert create("qbc").members == 5
    assert create("qbc", {"size": 3}).members == 3
    with pytest.raises(InputError, match="size must be at least 2"):
        create("qbc", {"size": 1})
    with pytest.raises(InputError, match="measure"):
        create("qbc", {"measure": "kl"})


def test_with_costs_the_scores_go_into_a_knapsack():
    model, support = member(0), Support(members=[member(1), member(2)])
    scores = steepest.score(model, points(), "qbc", support=support, progress=False)
    top = steepest.select(model, points(), 4, "qbc", support=support, progress=False)
    equal = choose_within_budget(scores.values, np.ones(14), 4)
    assert {scores.ids[i] for i in equal} == set(top.ids)
    dear = np.ones(14)
    dear[top.ids[0]] = 5
    chosen = choose_within_budget(scores.values, dear, 4)
    assert dear[chosen].sum() <= 4
    assert top.ids[0] not in chosen
