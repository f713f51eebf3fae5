"""Greedy cover and the radius of pure balls against brute force."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
import torch

from steepest.strategies.algorithms import distances
from steepest.strategies.algorithms.ball_cover import covered_by, greedy_cover, pure_radius


def draw(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def near(rows, radius):
    return (torch.cdist(rows, rows) < radius).numpy()


def slow_cover(rows, radius, count, covered):
    """Count everything again for each row."""
    graph, positions, gains = near(rows, radius), [], []
    covered = covered.numpy().copy()
    while len(positions) < count and not covered.all():
        gain = (graph & ~covered).sum(1)
        positions.append(int(gain.argmax()))
        gains.append(int(gain.max()))
        covered |= graph[positions[-1]]
    return positions, gains


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("radius", [0.2, 0.7, 3.0])
@pytest.mark.parametrize("tile_bytes", [2**27, 500])
def test_rows_are_taken_as_if_all_was_counted_again(seed, radius, tile_bytes, monkeypatch):
    monkeypatch.setattr(distances, "TILE_BYTES", tile_bytes)
    rows = draw(40, 2, seed=seed)
    covered = covered_by(rows, draw(2, 2, seed=seed + 50), radius)
    assert covered.tolist() == (
        (torch.cdist(rows, draw(2, 2, seed=seed + 50)) < radius).any(1).tolist()
    )
    for start in (None, covered):
        found = greedy_cover(rows, radius, 40, covered=start)
        assert found == slow_cover(
            rows, radius, 40, torch.zeros(40, dtype=torch.bool) if start is None else start
        )


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("count", [1, 2, 3])
def test_greedy_covers_at_least_1_minus_1_by_e_of_the_best(seed, count):
    rows = draw(12, 2, seed=seed)
    graph = near(rows, 0.8)
    best = max(graph[list(some)].any(0).sum() for some in combinations(range(12), count))
    positions, gains = greedy_cover(rows, 0.8, count)
    assert graph[positions].any(0).sum() == sum(gains)
    assert sum(gains) >= (1 - np.exp(-1)) * best


def test_gains_never_rise_and_nothing_is_taken_twice():
    rows = draw(60, 2)
    positions, gains = greedy_cover(rows, 0.5, 60)
    assert gains == sorted(gains, reverse=True)
    assert gains[-1] >= 1
    assert sum(gains) == 60
    assert len(set(positions)) == len(positions) < 60


def test_it_stops_when_everything_is_covered():
    rows = draw(10, 2)
    assert greedy_cover(rows, 0.5, 3, covered=torch.ones(10, dtype=torch.bool)) == ([], [])
    assert len(greedy_cover(rows, 100.0, 5)[0]) == 1


def test_a_radius_below_rounding_still_takes_every_row_once():
    # Far from the origin, single precision cannot tell a row from its neighbours.
    rows = 1000 + draw(30, 8).float() * 1e-3
    positions, gains = greedy_cover(rows, 1e-6, 30)
    assert len(set(positions)) == len(positions)
    assert sum(gains) == 30


def test_what_is_covered_before_is_left_as_it_is():
    covered = torch.zeros(20, dtype=torch.bool)
    greedy_cover(draw(20, 2), 0.5, 20, covered=covered)
    assert not bool(covered.any())


def purity_of(rows, labels, radius):
    graph = near(rows, radius)
    same = (labels[:, None] == labels[None]).numpy()
    return (~graph | same).all(1).mean()


@pytest.mark.parametrize("purity", [0.5, 0.9, 0.95, 1.0])
@pytest.mark.parametrize("seed", range(3))
def test_the_radius_is_the_largest_that_is_pure_enough(seed, purity):
    rows = draw(100, 2, seed=seed)
    labels = (rows[:, 0] > 0).long()
    radius = pure_radius(rows, labels, purity, seed)
    assert purity_of(rows, labels, radius * (1 - 1e-9)) >= purity
    assert purity_of(rows, labels, radius * (1 + 1e-9)) < purity


def test_a_few_balls_stand_for_all():
    rows = draw(2000, 2)
    labels = (rows[:, 0] > 0).long()
    part = pure_radius(rows, labels, 0.9, 0, samples=500)
    assert part == pure_radius(rows, labels, 0.9, 0, samples=500)
    assert part == pytest.approx(pure_radius(rows, labels, 0.9, 0), rel=0.3)


def test_one_label_alone_has_the_radius_of_everything():
    rows = draw(20, 2)
    labels = torch.zeros(20, dtype=torch.long)
    assert pure_radius(rows, labels, 0.95, 0) == pytest.approx(float(torch.cdist(rows, rows).max()))
    assert pure_radius(torch.ones(3, 2), labels[:3], 0.95, 0) == 1.0
