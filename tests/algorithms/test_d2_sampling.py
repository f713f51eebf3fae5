"""D² sampling against the plain version: one draw after another from exact chances."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch
from scipy import stats

from steepest.errors import InputError, UnknownNameError
from steepest.strategies.algorithms import d2_sampling
from steepest.strategies.algorithms.d2_sampling import d2_sample, d2_sample_products


def normal(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def draws(seed):
    return torch.Generator().manual_seed(seed)


def chances_of_sequences(points, k, first):
    """Return the exact chance of every ordered sequence that starts with a first point."""
    chances = {(first,): 1.0}
    table = torch.cdist(points, points).square().numpy()
    for _ in range(k - 1):
        longer = {}
        for sequence, chance in chances.items():
            mass = table[:, list(sequence)].min(1)
            mass[list(sequence)] = 0
            for position in np.flatnonzero(mass):
                longer[*sequence, int(position)] = chance * mass[position] / mass.sum()
        chances = longer
    return chances


def assert_frequencies(found, chances, total):
    keys = list(chances)
    assert set(found) <= set(keys)
    expected = np.array([chances[key] for key in keys]) * total
    seen = np.array([found[key] for key in keys])
    rare = expected < 5
    seen = np.append(seen[~rare], seen[rare].sum())
    expected = np.append(expected[~rare], expected[rare].sum())
    keep = expected > 0
    result = stats.chisquare(seen[keep], expected[keep])
    assert result.pvalue > 1e-3


class TestDistribution:
    def test_sequences_come_with_their_exact_chances(self):
        points = torch.tensor([[0.0, 0], [3, 0], [3, 0.5], [0, 2], [-1, -1]], dtype=torch.float64)
        first = int(points.square().sum(1).argmax())
        chances = chances_of_sequences(points, 4, first)
        total = 2500
        found = Counter(
            tuple(d2_sample(points, 4, draws(seed)).positions.tolist()) for seed in range(total)
        )
        assert_frequencies(found, chances, total)

    def test_and_so_do_those_of_products(self):
        left, right = normal(5, 2), normal(5, 3, seed=1)
        outer = torch.einsum("nc,nd->ncd", left, right).flatten(1)
        first = int(outer.square().sum(1).argmax())
        chances = chances_of_sequences(outer, 3, first)
        total = 2000
        found = Counter(
            tuple(d2_sample_products(left, right, 3, draws(seed)).positions.tolist())
            for seed in range(total)
        )
        assert_frequencies(found, chances, total)

    def test_one_proposal_a_round_or_many_give_the_same_distribution(self, monkeypatch):
        points = normal(6, 2, seed=3)
        first = int(points.square().sum(1).argmax())
        monkeypatch.setattr(d2_sampling, "_SMALLEST", 2)
        monkeypatch.setattr(d2_sampling, "_LARGEST", 2)
        total = 2000
        found = Counter(
            tuple(d2_sample(points, 3, draws(seed)).positions.tolist()) for seed in range(total)
        )
        assert_frequencies(found, chances_of_sequences(points, 3, first), total)

    def test_a_random_first_point_is_any(self):
        points = normal(6, 2)
        found = Counter(
            int(d2_sample(points, 1, draws(seed), first="random").positions[0])
            for seed in range(2000)
        )
        assert stats.chisquare([found[i] for i in range(6)]).pvalue > 1e-3


def test_factorised_equals_direct():
    left, right = normal(300, 5), normal(300, 8, seed=1)
    outer = torch.einsum("nc,nd->ncd", left, right).flatten(1)
    direct = d2_sample(outer, 150, draws(4))
    factorised = d2_sample_products(left, right, 150, draws(4))
    assert factorised.positions.tolist() == direct.positions.tolist()
    np.testing.assert_allclose(factorised.scores, direct.scores, rtol=1e-9)


def test_scale_changes_distances_but_no_pick():
    points = normal(200, 4)
    one, other = d2_sample(points, 80, draws(1)), d2_sample(points * 8, 80, draws(1))
    assert other.positions.tolist() == one.positions.tolist()
    np.testing.assert_allclose(other.scores, 8 * one.scores, rtol=1e-12)


def test_distances_are_those_at_the_time_of_the_draw():
    points = normal(120, 3)
    found = d2_sample(points, 60, draws(2))
    assert found.scores[0] == pytest.approx(float(points.norm(dim=1).max()))
    for n in range(1, 60):
        before = points[found.positions[:n]]
        distance = torch.cdist(points[found.positions[n]][None], before).min()
        assert found.scores[n] == pytest.approx(float(distance), rel=1e-9)


def test_the_same_generator_gives_the_same_picks():
    points = normal(100, 3)
    again = d2_sample(points, 40, draws(5)).positions.tolist()
    assert d2_sample(points, 40, draws(5)).positions.tolist() == again
    assert d2_sample(points, 40, draws(6)).positions.tolist() != again


class TestNoMass:
    def test_two_clusters_of_equal_points_give_one_of_each_first(self):
        points = torch.cat([torch.ones(20, 3), -torch.ones(20, 3)])
        for seed in range(20):
            found = d2_sample(points, 2, draws(seed))
            assert {int(p) // 20 for p in found.positions} == {0, 1}

    def test_then_the_rest_is_drawn_evenly_and_never_twice(self):
        points = torch.tensor([[2.0], [2.0], [1.0], [1.0], [1.0], [1.0]])
        third = Counter()
        for seed in range(800):
            found = d2_sample(points, 6, draws(seed))
            assert sorted(found.positions.tolist()) == list(range(6))
            assert (found.scores[:2] > 0).all()
            assert not found.scores[2:].any()
            third[int(found.positions[2]) == 1] += 1
        # One point on the first and three on the second are left.
        assert stats.binomtest(third[True], 800, 0.25).pvalue > 1e-3

    def test_points_of_zero_are_drawn_evenly_from_the_first_on(self):
        first = Counter(
            int(d2_sample_products(torch.zeros(4, 2), torch.ones(4, 3), 1, draws(s)).positions[0])
            for s in range(2000)
        )
        assert stats.chisquare([first[i] for i in range(4)]).pvalue > 1e-3

    def test_single_precision_duplicates_have_no_mass(self):
        points = normal(30, 16).float().repeat(2, 1) + 50
        found = d2_sample(points, 60, draws(0))
        assert {int(p) % 30 for p in found.positions[:30]} == set(range(30))
        assert not found.scores[30:].any()


def test_all_points_can_be_drawn():
    found = d2_sample(normal(500, 2), 500, draws(0))
    assert sorted(found.positions.tolist()) == list(range(500))


def test_bad_arguments_are_refused_in_one_line():
    with pytest.raises(InputError, match="at most all of the 3 points"):
        d2_sample(normal(3, 2), 4, draws(0))
    with pytest.raises(UnknownNameError, match="did you mean 'norm'"):
        d2_sample(normal(3, 2), 2, draws(0), first="nrm")
