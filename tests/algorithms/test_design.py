"""Greedy design against the trace that it is about, computed anew for every row and pick."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from steepest.errors import InputError
from steepest.strategies.algorithms.design import greedy_design


def normal(*shape, seed=0):
    draws = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=draws, dtype=torch.float64)


def uniform(count, seed=1):
    return torch.rand(count, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def trace(rows, weights, prior, chosen, chosen_weights):
    """tr(F M⁻¹), sample by sample."""
    moment = prior * np.eye(rows.shape[1])
    for z, w in zip(chosen, chosen_weights, strict=True):
        moment += float(w) * np.outer(z, z)
    inverse = np.linalg.inv(moment)
    terms = [float(w) * z @ inverse @ z for z, w in zip(rows.numpy(), weights, strict=True)]
    return sum(terms) / len(rows)


def weighted_design(rows, weights, k, prior, known=None, known_weights=None, **more):
    """Greedy design with one direction for each row."""
    known = None if known is None else known * known_weights.sqrt()[:, None]
    return greedy_design(rows * weights.to(rows).sqrt()[:, None], k, prior, known=known, **more)


def plain_design(rows, weights, k, prior, known=(), known_weights=()):
    chosen, its_weights = list(known), list(known_weights)
    picks, gains = [], []
    for _ in range(k):
        now = trace(rows, weights, prior, chosen, its_weights)
        falls = [
            -np.inf
            if i in picks
            else now
            - trace(rows, weights, prior, [*chosen, rows[i].numpy()], [*its_weights, weights[i]])
            for i in range(len(rows))
        ]
        picks.append(int(np.argmax(falls)))
        gains.append(max(falls))
        chosen.append(rows[picks[-1]].numpy())
        its_weights.append(weights[picks[-1]])
    return picks, gains


@pytest.mark.parametrize("prior", [0.05, 1.0, 30.0])
@pytest.mark.parametrize("labelled", [0, 6])
def test_picks_are_those_of_computing_the_trace_anew(prior, labelled):
    rows, weights = normal(25, 4), uniform(25)
    known, known_weights = normal(labelled, 4, seed=5), uniform(labelled, seed=6)
    found = weighted_design(rows, weights, 12, prior, known=known, known_weights=known_weights)
    picks, gains = plain_design(rows, weights, 12, prior, known.numpy(), known_weights)
    assert found.positions.tolist() == picks
    np.testing.assert_allclose(found.scores, gains, rtol=1e-9)


def test_single_precision_stays_near_over_many_picks():
    """Rank-one updates pile up: forms that are brought up to date stay those of the last matrix."""
    rows, weights = normal(600, 20), uniform(600)
    exact = weighted_design(rows, weights, 300, 0.05)
    single = weighted_design(rows.float(), weights, 300, 0.05)
    np.testing.assert_allclose(single.scores, exact.scores, rtol=1e-3)
    assert len(set(single.positions.tolist()) & set(exact.positions.tolist())) >= 297


def test_all_can_be_taken_once():
    rows, weights = normal(9, 3), torch.zeros(9, dtype=torch.float64)
    assert weighted_design(rows, weights, 9, 1.0).positions.tolist() == list(range(9))
    with pytest.raises(InputError):
        weighted_design(rows, weights, 10, 1.0)
