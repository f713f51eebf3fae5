"""BADGE: gradients of the last layer, drawn by distance."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn

import steepest
from steepest.errors import InputError, UnknownNameError
from steepest.modules.batches import count
from steepest.strategies import create


def normal(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def linear(width=4, classes=3, seed=0, scale=1.0):
    layer = nn.Linear(width, classes, dtype=torch.float64)
    with torch.no_grad():
        layer.weight.copy_(normal(classes, width, seed=seed) * scale)
        layer.bias.zero_()
    return nn.Sequential(nn.Identity(), layer)


def choose(model, pool, k, **more):
    return steepest.select(model, pool, k, "badge", progress=False, **more)


def gradients(model, pool):
    """Return the last layer's gradients under the likeliest label [N, C · D], by autograd."""
    rows = []
    for x in pool:
        logits = model(x[None])
        loss = nn.functional.cross_entropy(logits, logits.argmax(1))
        rows.append(torch.autograd.grad(loss, model[1].weight)[0].flatten())
    return torch.stack(rows)


def test_distances_are_those_of_autograds_gradients():
    model, pool = linear(), normal(40, 4, seed=1)
    g = gradients(model, pool)
    picks = choose(model, pool, 15)
    assert picks.ids[0] == int(g.norm(dim=1).argmax())
    np.testing.assert_allclose(picks.scores[0], float(g.norm(dim=1).max()), rtol=1e-9)
    for n in range(1, 15):
        before = g[list(picks.ids[:n])]
        distance = float(torch.cdist(g[picks.ids[n]][None], before).min())
        np.testing.assert_allclose(picks.scores[n], distance, rtol=1e-7)


def test_the_second_pick_follows_the_squared_distance():
    model, pool = linear(), normal(6, 4, seed=2)
    g = gradients(model, pool)
    first = int(g.norm(dim=1).argmax())
    mass = torch.cdist(g, g[first][None]).square()[:, 0]
    mass[first] = 0
    seen = Counter(choose(model, pool, 2, seed=s).ids[1] for s in range(600))
    others = [i for i in range(6) if i != first]
    expected = (mass / mass.sum())[others].numpy() * 600
    assert stats.chisquare([seen[i] for i in others], expected).pvalue > 1e-3


def test_equal_clusters_give_one_sample_each_and_none_twice():
    one, other = normal(1, 4), normal(1, 4, seed=1)
    pool = torch.cat([one.repeat(10, 1), other.repeat(10, 1)])
    for seed in range(10):
        ids = choose(linear(), pool, 2, seed=seed).ids
        assert {i // 10 for i in ids} == {0, 1}


def test_certain_predictions_are_drawn_evenly():
    pool = normal(5, 4).sign() * 50
    model = linear(scale=100.0)
    assert bool((model(pool).softmax(1).amax(1) == 1).all())
    seen = Counter()
    for seed in range(300):
        picks = choose(model, pool, 2, seed=seed)
        assert len(set(picks.ids)) == 2
        assert not any(picks.scores)
        seen.update(picks.ids)
    assert stats.chisquare([seen[i] for i in range(5)]).pvalue > 1e-3


def test_a_random_first_sample_is_not_the_largest():
    model, pool = linear(), normal(30, 4, seed=1)
    largest = int(gradients(model, pool).norm(dim=1).argmax())
    firsts = {choose(model, pool, 1, seed=s, options={"first": "random"}).ids[0] for s in range(9)}
    assert firsts != {largest}


def test_the_model_runs_once_for_each_batch():
    calls = []

    class Counting(nn.Sequential):
        head_layers = ("1",)

        def forward(self, x):
            calls.append(count(x))
            return super().forward(x)

    choose(Counting(*linear()), normal(10, 4), 3, batch_size=5)
    assert calls == [5, 5]


def test_maps_are_refused_with_a_remedy():
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.Conv2d(4, 3, 1)).double()
    with pytest.raises(InputError, match="badge has no meaning where a sample has many labels"):
        choose(model, normal(3, 1, 6, 6), 1)


def test_options_are_checked():
    with pytest.raises(UnknownNameError, match="did you mean 'random'"):
        create("badge", {"first": "rndom"})
