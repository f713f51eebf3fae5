"""The highest scores: exact but for rounding, and the same whatever the last bits are."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steepest.core.seeds import keyed_uniform
from steepest.strategies.algorithms.top_k import top_k


def wobble(values, seed):
    """Change the last bits, as another batch size does."""
    noise = np.random.default_rng(seed).uniform(-1e-7, 1e-7, len(values))
    return values * (1 + noise)


@given(st.lists(st.integers(-50, 50), max_size=30), st.integers(0, 40))
def test_distinct_values_are_sorted(scores, k):
    values = np.array(scores, dtype=np.float64)
    best = top_k(values, range(len(values)), k, seed=3)
    assert len(best) == min(k, len(values)) == len(set(best.tolist()))
    assert values[best].tolist() == sorted(scores, reverse=True)[:k]


@pytest.mark.parametrize("seed", range(5))
def test_copies_are_drawn_from_alike_whatever_their_last_bits(seed):
    values = np.concatenate([np.full(30, 0.7), np.linspace(0.1, 0.9, 31)])
    ids = list(range(len(values)))
    chosen = [top_k(wobble(values, turn), ids, 20, seed).tolist() for turn in range(20)]
    assert all(one == chosen[0] for one in chosen)


def test_a_fewer_are_the_first_of_more():
    values = np.round(np.random.default_rng(0).random(200), 2)
    ids = [f"photo {i}" for i in range(200)]
    assert top_k(values, ids, 40, 1).tolist() == top_k(values, ids, 200, 1).tolist()[:40]


@given(
    st.lists(
        st.tuples(
            st.sampled_from([-np.inf, -2.0, 0.0, 1e-9, 1.0, 3.0, np.inf]), st.integers(0, 40)
        ),
        min_size=2,
        max_size=40,
    ),
    st.integers(0, 3),
)
def test_whoever_cannot_be_among_the_best_changes_nothing(parts, seed):
    # Rows of neighbours within rounding of each other, but not of those farther on.
    values = np.array([base + 2e-7 * steps for base, steps in parts])
    ids = list(range(len(values)))
    ranked = top_k(values, ids, len(values), seed).tolist()  # None is left out of this.
    assert all(top_k(values, ids, k, seed).tolist() == ranked[:k] for k in range(len(values)))


def test_scores_that_cannot_be_chosen_are_not_drawn_for():
    class Asked(list):
        def __getitem__(self, position):
            asked.add(position)
            return super().__getitem__(position)

    asked = set()
    top_k(np.linspace(0, 1, 1000), Asked(range(1000)), 10, seed=0)
    assert asked == set(range(990, 1000))


def test_a_long_row_of_close_neighbours_is_not_one_tie():
    values = np.linspace(1.0, 2.0, 20_001)[::-1] * 1e-2 + 3.0  # Gaps of 5e-7, each within rounding.
    best = top_k(values, range(len(values)), 100, seed=0)
    assert values[best].min() > values[0] - 1e-4


def plainly_ranked(values, ids, seed):
    """Rank one after another: who lies within rounding of a level's highest belongs to it."""
    ties = keyed_uniform(seed, "ties", ids)[:, 0]
    typical = np.sort(np.abs(values))[int(0.9 * (len(values) - 1))]
    levels = []
    for row in sorted(range(len(values)), key=lambda row: -values[row]):
        highest = values[levels[-1][0]] if levels else values[row]
        if levels and highest - values[row] <= 5e-7 * (abs(highest) + typical):
            levels[-1].append(row)
        else:
            levels.append([row])
    return [row for level in levels for row in sorted(level, key=lambda row: ties[row])]


@given(
    st.floats(-3, 3),
    st.lists(st.sampled_from([0.0, 1e-7, 4e-7, 9e-7, 2e-6, 1e-3]), min_size=1, max_size=60),
    st.integers(0, 3),
)
def test_the_levels_of_a_row_of_close_neighbours_begin_at_its_highest(start, steps, seed):
    values = start - np.cumsum(steps)
    ids = list(range(len(values)))
    found = top_k(values, ids, len(values), seed).tolist()
    assert found == plainly_ranked(values, ids, seed)


def test_a_row_of_close_neighbours_is_ranked_but_for_rounding():
    values = 1 - 4e-7 * np.arange(300)  # Two steps are within the rounding of 1e-6, three are not.
    ranked = top_k(values, range(300), 300, seed=0)
    assert (ranked // 3).tolist() == sorted((ranked // 3).tolist())


def test_one_score_of_a_heavy_tail_does_not_make_the_others_equal():
    values = np.array([1e12, 3.0, 2.0, 1.0])
    assert top_k(values, range(4), 4, seed=0).tolist() == [0, 1, 2, 3]


def test_infinities_are_equal_to_themselves_alone():
    values = np.array([-np.inf, np.inf, 1.0, np.inf, -np.inf])
    best = top_k(values, range(5), 5, seed=0).tolist()
    assert [set(best[:2]), best[2], set(best[3:])] == [{1, 3}, 2, {0, 4}]


def test_nothing_is_chosen_from_nothing():
    assert top_k(np.zeros(0), [], 3, seed=0).tolist() == []
