"""Greedy coverage against a slow version that is plain to read."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from steepest.errors import InputError
from steepest.strategies.algorithms import coverage_state as module
from steepest.strategies.algorithms import distances
from steepest.strategies.algorithms.coverage import greedy_coverage, median_square, total_coverage


def directions(count, dimensions, seed=0, dtype=torch.float64):
    draws = torch.Generator().manual_seed(seed)
    rows = torch.randn(count, dimensions, generator=draws, dtype=torch.float64).relu()
    return F.normalize(rows, dim=1).to(dtype)


def uniform(count, seed=1):
    return torch.rand(count, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def plain_gain(rows, weights, width, chosen):
    """The sum, sample by sample."""
    total = 0.0
    for x, w in zip(rows.double(), weights, strict=True):
        nearest = min((float((x - s).square().sum()) for s in chosen), default=np.inf)
        total += float(w) * np.exp(-nearest / (2 * width))
    return total


def plain_greedy(rows, weights, k, width, centres=None, witnesses=None):
    """Every gain for every pick, from the matrix of all kernels; of equals the first."""
    rows = rows.double()
    seen = rows[:witnesses]
    kernels = torch.exp(-torch.cdist(seen, rows).square() / (2 * width))
    covered = torch.zeros(len(seen), dtype=torch.float64)
    if centres is not None:
        covered = torch.exp(-torch.cdist(seen, centres.double()).square() / (2 * width)).amax(1)
    picks, gains = [], []
    for _ in range(k):
        gain = (weights[: len(seen), None] * (kernels - covered[:, None]).clamp_min(0)).sum(0)
        gain[picks] = -1
        best = int((gain >= gain.max() - 1e-12).nonzero()[0])
        picks.append(best)
        gains.append(float(gain[best]))
        covered = torch.maximum(covered, kernels[:, best])
    return picks, gains


@pytest.mark.parametrize("listed", [2**25, 6000, 1500, 0])
@pytest.mark.parametrize("labelled", [0, 7])
@pytest.mark.parametrize("witnesses", [None, 60])
def test_picks_are_those_of_computing_every_gain(monkeypatch, listed, labelled, witnesses):
    monkeypatch.setattr(module, "LISTED_PAIRS", listed)
    monkeypatch.setattr(module, "CACHE_BYTES", 2**15)
    monkeypatch.setattr(distances, "CACHED_BYTES", 2**12)
    rows, weights = directions(150, 6), uniform(150)
    centres = directions(labelled, 6, seed=5) if labelled else None
    found = greedy_coverage(rows, weights, 40, 0.1, centres=centres, witnesses=witnesses)
    picks, gains = plain_greedy(rows, weights, 40, 0.1, centres, witnesses)
    assert found.positions.tolist() == picks
    np.testing.assert_allclose(found.scores, gains, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("listed", [2**25, 0])
def test_gains_add_up_to_what_is_covered(monkeypatch, listed):
    monkeypatch.setattr(module, "LISTED_PAIRS", listed)
    rows, weights, centres = directions(50, 4), uniform(50), directions(3, 4, seed=9)
    found = greedy_coverage(rows, weights, 12, 0.2, centres=centres)
    everyone = torch.cat([centres, rows[found.positions.tolist()]])
    whole = plain_gain(rows, weights, 0.2, everyone)
    assert sum(found.scores) + plain_gain(rows, weights, 0.2, centres) == pytest.approx(whole)
    assert total_coverage(rows, weights, 0.2, everyone) == pytest.approx(whole)


@pytest.mark.parametrize("listed", [2**25, 4000, 0])
def test_single_precision_covers_as_much(monkeypatch, listed):
    monkeypatch.setattr(module, "LISTED_PAIRS", listed)
    rows, weights = directions(200, 16), uniform(200)
    found = greedy_coverage(rows.float(), weights.float(), 60, 0.15)
    picks, _ = plain_greedy(rows, weights, 60, 0.15)
    ours = plain_gain(rows, weights, 0.15, rows[found.positions.tolist()])
    assert ours == pytest.approx(plain_gain(rows, weights, 0.15, rows[picks]), rel=1e-5)


@pytest.mark.parametrize("listed", [2**25, 0])
def test_copies_gain_nothing_and_come_last_in_their_order(monkeypatch, listed):
    monkeypatch.setattr(module, "LISTED_PAIRS", listed)
    rows = directions(3, 5, dtype=torch.float32)[torch.tensor([0, 1, 0, 2, 1, 0])]
    found = greedy_coverage(rows, torch.ones(6), 6, 0.01)
    assert found.positions.tolist() == [0, 1, 3, 2, 4, 5]
    np.testing.assert_allclose(found.scores, [3, 2, 1, 0, 0, 0], atol=1e-6)


def test_what_is_labelled_is_covered():
    rows = directions(30, 5)
    found = greedy_coverage(rows, torch.ones(30).double(), 1, 0.05, centres=rows)
    assert found.scores == [0.0]


def test_wide_kernels_take_the_typical_and_narrow_ones_the_highest_weights():
    rows, weights = directions(80, 16), uniform(80)
    narrow = greedy_coverage(rows, weights, 10, 1e-6)
    assert narrow.positions.tolist() == weights.argsort(descending=True)[:10].tolist()
    wide = greedy_coverage(rows, torch.ones(80).double(), 1, 10.0)
    middle = (rows[:, None] - rows).square().sum(2).sum(1).argmin()
    assert wide.positions.tolist() == [int(middle)]


def test_the_width_is_the_median_distance_to_the_nth_nearest():
    rows = directions(41, 5)
    table = (rows[:, None] - rows).square().sum(2)
    for neighbour in (1, 4, 40):
        slow = table.sort(dim=1).values[:, neighbour].median()
        assert median_square(rows, neighbour) == pytest.approx(float(slow), rel=1e-9)
    assert median_square(rows, 100) == median_square(rows, 40)
    some = table[:10].sort(dim=1).values[:, 3].median()
    assert median_square(rows, 3, sample=10) == pytest.approx(float(some), rel=1e-9)


def test_rows_that_are_all_equal_have_a_width():
    rows = directions(1, 5).expand(9, 5)
    assert median_square(rows, 3) == 1.0
    assert median_square(rows[:1], 3) == 1.0
    # Half of the rows are copies of one: the distances that are not zero decide.
    half = torch.cat([rows, directions(4, 5, seed=2)])
    assert median_square(half, 2) > 0


def test_no_more_rows_than_there_are():
    with pytest.raises(InputError, match="k = 4"):
        greedy_coverage(directions(3, 2), torch.ones(3), 4, 0.1)
