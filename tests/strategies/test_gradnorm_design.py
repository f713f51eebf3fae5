"""Design by gradient norm: what is weighed, in which units, and what labels change."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import steepest
from steepest.errors import InputError
from steepest.strategies import Support


def normal(*shape, seed=0):
    draws = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=draws, dtype=torch.float64)


@pytest.fixture
def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3)).double()


def choose(model, pool, k, **more):
    return steepest.select(model, pool, k, "gradnorm-design", progress=False, **more)


def expected_losses(model, pool, free, chosen, prior):
    """The Fisher information of the last layer, class by class, and the loss it leads to expect.

    The class part is left out as the formula does: one direction of the logits stands for all.
    """
    h = model[1](model[0](pool)).detach()
    p = model(pool).softmax(1).detach()
    h = (h - h[free].mean(0)) / (h[free] - h[free].mean(0)).square().mean().sqrt()
    z = torch.cat([h, torch.ones(len(h), 1).double()], 1)
    w = 1 - p.square().sum(1)
    moment = prior * torch.eye(z.shape[1]).double()
    for i in chosen:
        moment += w[i] * torch.outer(z[i], z[i])
    inverse = torch.linalg.inv(moment)
    return float(sum(w[i] * (z[i] @ inverse @ z[i]) for i in free) / len(free))


@pytest.mark.parametrize(("labelled", "prior"), [((), 1.0), ((3, 9, 20), 1.0), ((5, 7), 0.05)])
def test_each_pick_lowers_the_expected_loss_most(model, labelled, prior):
    pool = 5 + 3 * normal(24, 4)
    free = [i for i in range(24) if i not in labelled]
    picks = choose(model, pool, 6, labelled=labelled, options={"prior": prior})
    chosen = list(labelled)
    for pick, score in zip(picks.ids, picks.scores, strict=True):
        now = expected_losses(model, pool, free, chosen, prior)
        left = [i for i in free if i not in chosen]
        falls = {i: now - expected_losses(model, pool, free, [*chosen, i], prior) for i in left}
        assert pick == max(falls, key=falls.get)
        np.testing.assert_allclose(score, falls[pick], rtol=1e-8)
        chosen.append(pick)


def test_units_of_the_features_do_not_matter(model):
    pool, rows = normal(30, 4), normal(30, 5, seed=3)
    first = choose(model, pool, 8, support=Support(features=dict(enumerate(rows))))
    for scale, shift in ((1e-3, 0.0), (1e18, 0.0), (1.0, 50.0)):
        moved = dict(enumerate(rows * scale + shift))
        assert choose(model, pool, 8, support=Support(features=moved)).ids == first.ids


def test_a_sample_is_worth_less_beside_its_copy(model):
    pool = normal(20, 4)
    first = choose(model, pool, 1).ids[0]
    copies = torch.cat([pool, pool[first].repeat(6, 1)])
    assert len({*choose(model, copies, 6).ids} & {first, *range(20, 26)}) < 6


@pytest.mark.parametrize("prior", [0.0, -1.0, float("nan"), float("inf")])
def test_a_prior_must_be_a_number_above_0(model, prior):
    with pytest.raises(InputError, match="prior"):
        choose(model, normal(9, 4), 2, options={"prior": prior})


def test_other_features_of_labelled_samples_are_refused(model):
    known = {i: torch.ones(3 if i < 2 else 4) * i for i in range(10)}
    with pytest.raises(InputError, match="features"):
        choose(model, normal(10, 4), 2, labelled=[0, 1], support=Support(features=known))
