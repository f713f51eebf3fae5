"""BAIT against its definition: whole Fisher matrices, and the trace anew for every sample."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import nn

import steepest
from steepest.errors import InputError
from steepest.strategies.bait import TensorSketch


def normal(*shape, seed=0):
    draws = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=draws, dtype=torch.float64)


@pytest.fixture
def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 4)).double()


def fisher_information(model, pool, free, classes):
    """Return Σ_i p_i g_i g_iᵀ over the last layer's parameters [N, P, P], class by class."""
    h = model[1](model[0](pool)).detach()
    h = (h - h[free].mean(0)) / (h[free] - h[free].mean(0)).square().mean().sqrt()
    found = []
    for row, p in zip(h, model(pool).softmax(1).detach(), strict=True):
        z = torch.cat([row, torch.ones(1).double()])
        total = 0
        for i in p.argsort(descending=True)[:classes].tolist():
            g = torch.outer(torch.eye(len(p), dtype=p.dtype)[i] - p, z).flatten()
            total = total + p[i] * torch.outer(g, g)
        found.append(total.numpy())
    return np.stack(found)


def plain_bait(information, free, labelled, k, extra, prior):
    """Take k + extra samples and give extra ones back, by traces of inverses alone."""
    fisher = information[free].mean(0)

    def loss(chosen):
        moment = prior * np.eye(len(fisher)) + information[chosen].sum(0)
        return np.trace(np.linalg.inv(moment) @ fisher)

    chosen, gains = [], {}
    for _ in range(k + extra):
        now = loss([*labelled, *chosen])
        falls = {i: now - loss([*labelled, *chosen, i]) for i in free if i not in chosen}
        best = max(falls, key=falls.get)
        chosen.append(best)
        gains[best] = falls[best]
    for _ in range(extra):
        left = {i: loss([*labelled, *(c for c in chosen if c != i)]) for i in chosen}
        chosen.remove(min(left, key=left.get))
    return chosen, [gains[i] for i in chosen]


@pytest.mark.parametrize("classes", [1, 2, 4])
@pytest.mark.parametrize(("labelled", "prior"), [((), 1.0), ((3, 9, 20), 0.1)])
def test_choice_is_that_of_the_whole_fisher_information(model, classes, labelled, prior):
    pool = 5 + 3 * normal(26, 4)
    free = [i for i in range(26) if i not in labelled]
    options = {"classes": classes, "prior": prior, "oversample": 1.5}
    picks = steepest.select(
        model, pool, 6, "bait", labelled=labelled, options=options, progress=False
    )
    information = fisher_information(model, pool, free, classes)
    ids, gains = plain_bait(information, free, list(labelled), 6, 3, prior)
    assert list(picks.ids) == ids
    np.testing.assert_allclose(picks.scores, gains, rtol=1e-7)


def test_giving_back_lowers_the_loss(model):
    """Here the greedy choice alone is not the best one."""
    pool = 3 * normal(40, 4, seed=5)
    information = fisher_information(model, pool, list(range(40)), 4)

    def loss(ids):
        moment = np.eye(information.shape[1]) + information[list(ids)].sum(0)
        return np.trace(np.linalg.inv(moment) @ information.mean(0))

    def choose(oversample):
        options = {"oversample": oversample, "classes": 4}
        return steepest.select(model, pool, 8, "bait", options=options, progress=False).ids

    assert loss(choose(2.0)) < loss(choose(1.0))


def test_a_sketch_keeps_inner_products_in_the_mean():
    a, b = normal(2, 7), normal(2, 9, seed=1)
    exact = float((a[0] @ a[1]) * (b[0] @ b[1]))
    products = []
    for seed in range(400):
        first, second = TensorSketch(7, 9, 16, seed)(a, b)
        products.append(float(first @ second))
    error = np.std(products) / math.sqrt(len(products))
    assert abs(np.mean(products) - exact) < 4 * error
    assert error < 0.1 * float(a.norm(dim=1).prod() * b.norm(dim=1).prod())


def test_gradients_of_many_numbers_are_sketched(model):
    """Near what is chosen without a sketch, and the same for the same seed."""
    pool = 3 * normal(200, 4, seed=2)
    exact, first, again = (
        steepest.select(model, pool, 20, "bait", options={"sketch": sketch}, progress=False).ids
        for sketch in (1024, 16, 16)
    )
    assert first == again
    information = fisher_information(model, pool, list(range(200)), 4)

    def loss(ids):
        moment = np.eye(information.shape[1]) + information[list(ids)].sum(0)
        return np.trace(np.linalg.inv(moment) @ information.mean(0))

    any_of_them = np.mean([loss(range(at, at + 20)) for at in range(0, 200, 20)])
    assert loss(exact) < loss(first) < any_of_them


@pytest.mark.parametrize(
    ("option", "value"), [("classes", 0), ("sketch", 0), ("oversample", 0.9), ("prior", 0.0)]
)
def test_options_out_of_range_are_named(model, option, value):
    with pytest.raises(InputError, match=f"bait: {option}"):
        steepest.select(model, normal(9, 4), 2, "bait", options={option: value}, progress=False)
