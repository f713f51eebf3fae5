"""The best set within a budget, against trying all of them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from steepest.errors import InputError
from steepest.strategies.algorithms import knapsack
from steepest.strategies.algorithms.knapsack import choose_within_budget


def best_total(values, costs, budget):
    sets = itertools.product((0, 1), repeat=len(values))
    return max(
        sum(v for v, s in zip(values, chosen, strict=True) if s)
        for chosen in sets
        if sum(c for c, s in zip(costs, chosen, strict=True) if s) <= budget
    )


items = some.lists(some.tuples(some.integers(0, 50), some.integers(0, 9)), max_size=9)


@settings(max_examples=60, deadline=None)
@given(items, some.integers(0, 30), some.sampled_from([1, 4, 1 << 20]))
def test_it_equals_trying_all_sets(pairs, budget, limit):
    values, costs = [v for v, _ in pairs], [c for _, c in pairs]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(knapsack, "_LIMIT_BYTES", limit)
        found = choose_within_budget(values, costs, budget)
    assert sorted(set(found.tolist())) == found.tolist()
    assert sum(costs[i] for i in found) <= budget
    assert sum(values[i] for i in found) == best_total(values, costs, budget)


@pytest.mark.parametrize("limit", [1, 1 << 20])
def test_twelve_real_values_equal_trying_all_sets(limit, monkeypatch):
    monkeypatch.setattr(knapsack, "_LIMIT_BYTES", limit)
    rng = np.random.default_rng(0)
    values, costs = rng.random(12), rng.integers(1, 8, 12)
    found = choose_within_budget(values, costs, 17)
    assert values[found].sum() == pytest.approx(best_total(values, costs, 17), rel=1e-12)


@pytest.mark.parametrize("limit", [1, 1 << 20])
@pytest.mark.parametrize("k", [0, 1, 7, 40, 99])
def test_equal_costs_give_the_highest_values_and_of_equals_the_first(k, limit, monkeypatch):
    monkeypatch.setattr(knapsack, "_LIMIT_BYTES", limit)
    values = np.random.default_rng(1).integers(1, 6, 40).astype(float)
    wanted = np.sort(np.argsort(-values, kind="stable")[:k])
    assert choose_within_budget(values, np.full(40, 3.0), 3 * k).tolist() == wanted.tolist()


def test_costs_are_rounded_up_to_whole_units():
    assert choose_within_budget([1, 1, 1], [0.3, 0.3, 0.41], 0.6, unit=0.1).tolist() == [0, 1]
    assert choose_within_budget([1, 2], [1.2, 1.2], 2.4).tolist() == [1]
    assert choose_within_budget([1, 2], [1.2, 1.2], 2.4, unit=0.2).tolist() == [0, 1]


def test_a_dear_sample_yields_to_two_cheap_ones():
    assert choose_within_budget([5, 3, 3], [10, 5, 5], 10).tolist() == [1, 2]


def test_what_is_free_is_taken_and_what_is_worthless_is_not():
    assert choose_within_budget([1, 0, 1], [0, 0, 5], 4).tolist() == [0]
    assert choose_within_budget([], [], 4).tolist() == []
    assert choose_within_budget([1.0], [1.0], 0).tolist() == []


def test_a_budget_beyond_all_costs_takes_all_without_a_table_of_its_size():
    assert choose_within_budget([1, 2, 3], [4, 4, 4], 1e15).tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (([1, 2], [1], 3), "1 costs for 2 values"),
        (([1, -2], [1, 1], 3), "every value"),
        (([1, 2], [1, float("nan")], 3), "every cost"),
        (([1], [1], -1), "budget must be at least 0"),
        (([1], [1], float("inf")), "budget must be at least 0"),
    ],
)
def test_what_cannot_be_used_is_said(arguments, said):
    with pytest.raises(InputError, match=said):
        choose_within_budget(*arguments)
    with pytest.raises(InputError, match="unit above 0"):
        choose_within_budget([1], [1], 1, unit=0)
