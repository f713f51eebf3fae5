from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from steepest.errors import InputError
from steepest.experiment.significance import (
    _NO_SPREAD,
    NO_DIFFERENCE,
    holm,
    paired_tests,
    penalty_matrix,
    smallest_wilcoxon_p,
)

RNG_VALUES = np.random.default_rng(3).normal(size=(2, 9))


def test_t_test_and_interval_agree_with_scipy():
    a, b = RNG_VALUES
    test = paired_tests(a, b)
    reference = stats.ttest_rel(a, b)
    interval = reference.confidence_interval(0.95)
    assert test.t_p == pytest.approx(reference.pvalue)
    assert (test.low, test.high) == pytest.approx((interval.low, interval.high))
    assert test.mean_difference == pytest.approx((a - b).mean())
    assert test.n == 9


def test_swapping_the_sides_swaps_the_sign_alone():
    a, b = RNG_VALUES
    one, other = paired_tests(a, b), paired_tests(b, a)
    assert one.mean_difference == pytest.approx(-other.mean_difference)
    assert one.t_p == pytest.approx(other.t_p)
    assert one.wilcoxon_p == pytest.approx(other.wilcoxon_p)


@pytest.mark.parametrize("n", [2, 3, 5, 6, 9])
def test_wilcoxon_agrees_with_scipy_without_ties(n):
    a, b = RNG_VALUES[:, :n]
    expected = stats.wilcoxon(a - b, method="exact").pvalue
    assert paired_tests(a, b).wilcoxon_p == pytest.approx(expected)


@given(st.lists(st.integers(-3, 3), min_size=2, max_size=7))
def test_wilcoxon_with_ties_counts_every_sign_pattern(steps):
    differences = [step / 360 for step in steps]
    kept = [step for step in steps if step]
    ranks = stats.rankdata(np.abs(kept)) if kept else np.zeros(0)
    observed = sum(r for r, step in zip(ranks, kept, strict=True) if step > 0)
    sums = [
        sum(r for r, sign in zip(ranks, signs, strict=True) if sign)
        for signs in itertools.product((0, 1), repeat=len(kept))
    ]
    below = np.mean([total <= observed for total in sums])
    above = np.mean([total >= observed for total in sums])
    p = paired_tests(differences, np.zeros(len(steps))).wilcoxon_p
    assert p == pytest.approx(min(1.0, 2 * min(below, above)))


def test_five_seeds_can_never_reach_five_percent_by_wilcoxon():
    huge = paired_tests([10.0, 11.0, 12.5, 13.0, 14.0], [0.0] * 5)
    assert huge.wilcoxon_p == smallest_wilcoxon_p(5) == 0.0625
    assert smallest_wilcoxon_p(6) == 0.03125
    assert smallest_wilcoxon_p(1) == 1.0


def test_one_pair_gives_a_difference_but_no_p_values():
    test = paired_tests([0.9], [0.8])
    assert test.mean_difference == pytest.approx(0.1)
    assert (test.t_p, test.wilcoxon_p, test.low, test.high) == (None, None, None, None)
    assert "one seed has no spread" in test.note


def test_equal_values_give_p_one():
    test = paired_tests([0.3, 0.4, 0.5], [0.3, 0.4, 0.5])
    assert (test.t_p, test.wilcoxon_p) == (1.0, 1.0)
    # Metrics move in steps: that two seeds do not differ does not make the difference certain.
    assert (test.mean_difference, test.low, test.high) == (0.0, None, None)
    assert test.note == NO_DIFFERENCE


def test_the_same_difference_in_all_seeds_leaves_the_t_test_undefined():
    # 0.1 is not exact in binary: the spread is rounding error, not zero.
    test = paired_tests([0.4, 0.5, 0.7], [0.3, 0.4, 0.6])
    assert test.t_p is None
    assert test.low is None
    assert test.wilcoxon_p == pytest.approx(0.25)
    assert "without spread" in test.note


@pytest.mark.parametrize("sign", [1, -1])
def test_what_is_rounding_grows_with_the_differences(sign):
    # A third of a million leaves its last digits behind when it is added and taken off again.
    base = np.array([1e5, 2.1e6, 3.3e7])
    test = paired_tests(base + sign * 1e6 / 3, base)
    assert np.ptp(base + sign * 1e6 / 3 - base) > 1e-10
    assert (test.t_p, test.note) == (None, _NO_SPREAD)
    curves = np.stack([base] * 3, axis=1)
    up = curves + np.array([0.0, 0.0, 1e6 / 3])
    assert penalty_matrix({"up": up, "down": curves}).sum() == 0


def test_what_is_rounding_grows_with_the_values():
    # 0.1 between such numbers leaves 1e-11 behind, by which a t-test would give p = 1e-20.
    base = np.array([1e5, 2.1e5, 3.3e5])
    test = paired_tests(base + 0.1, base)
    assert np.ptp(base + 0.1 - base) > 1e-12
    assert (test.t_p, test.low, test.note) == (None, None, _NO_SPREAD)
    curves = np.stack([base] * 3, axis=1)
    assert penalty_matrix({"up": curves + 0.1, "down": curves}).sum() == 0


def test_ranks_of_large_values_do_not_see_their_last_digits():
    # All are of one size: 1 of 5 down is as extreme as 6 of 32 sign patterns, on either side.
    base = np.array([1e5, 2.1e5, 3.3e5, 7e5, 1.3e5])
    steps = np.array([0.1, -0.1, 0.1, 0.1, 0.1])
    assert paired_tests(base + steps, base).wilcoxon_p == 2 * 6 / 32


def test_unpaired_or_non_finite_values_are_refused():
    with pytest.raises(InputError, match="one pair per seed"):
        paired_tests([0.1, 0.2], [0.1])
    with pytest.raises(InputError, match="NaN"):
        paired_tests([0.1, np.nan], [0.1, 0.2])


def test_holm_of_a_worked_example():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx((0.03, 0.06, 0.06, 0.02))


def test_holm_lets_none_pass_without_counting_it():
    assert holm([None, 0.02, None, 0.03]) == (None, 0.04, None, 0.04)
    assert holm([]) == ()


@given(st.lists(st.floats(0, 1), max_size=8))
def test_holm_keeps_order_never_shrinks_and_stops_at_one(pvalues):
    adjusted = [p for p in holm(pvalues) if p is not None]
    assert len(adjusted) == len(pvalues)
    assert all(p <= q <= 1.0 for p, q in zip(pvalues, adjusted, strict=True))
    by_raw = [q for _, q in sorted(zip(pvalues, adjusted, strict=True))]
    assert by_raw == sorted(by_raw)


def test_penalty_matrix_counts_wins_of_the_row_over_the_column():
    noise = np.array([-0.01, 0.0, 0.01])[:, None]
    weak = np.full((3, 5), 0.5) + noise
    strong = weak + np.array([0.0, 0.0, 0.2, 0.2, 0.2]) + 0.1 * noise[::-1]
    matrix = penalty_matrix({"strong": strong, "weak": weak})
    # Four budgets count (not the first); the strong one wins the last three of them.
    assert matrix.tolist() == [[0.0, 0.75], [0.0, 0.0]]
    assert matrix[0].mean() > matrix[1].mean()  # a row's mean: how often it wins
    assert matrix[:, 0].mean() < matrix[:, 1].mean()  # a column's mean: how often it is beaten


def test_penalty_matrix_leaves_out_the_first_budget():
    noise = np.array([-0.01, 0.0, 0.01])[:, None]
    weak = np.full((3, 3), 0.5) + noise
    strong = weak + np.array([0.2, 0.0, 0.0]) + 0.1 * noise[::-1]
    assert penalty_matrix({"strong": strong, "weak": weak}).sum() == 0


def test_penalty_matrix_agrees_with_scipy_budget_by_budget():
    rng = np.random.default_rng(7)
    curves = {
        name: rng.normal(shift, 0.1, size=(4, 9))
        for name, shift in zip("abc", (0.0, 0.15, 0.3), strict=True)
    }
    matrix = penalty_matrix(curves, alpha=0.1)
    for (i, a), (j, b) in itertools.permutations(enumerate(curves.values()), 2):
        tests = [stats.ttest_rel(a[:, k], b[:, k]) for k in range(1, 9)]
        share = np.mean([t.pvalue < 0.1 and t.statistic > 0 for t in tests])
        assert matrix[i, j] == pytest.approx(share)
    assert 0 < matrix.sum() < 9
    assert np.diag(matrix).tolist() == [0, 0, 0]


def test_differences_without_spread_are_no_win():
    weak = np.full((3, 3), 0.5)
    assert penalty_matrix({"up": weak + 0.1, "down": weak}).sum() == 0


def test_penalty_matrix_needs_two_seeds_and_equal_shapes():
    for alone in ([[0.1, 0.2]], [[0.1], [0.2]]):
        with pytest.raises(InputError, match="needs two"):
            penalty_matrix({"a": alone, "b": alone})
    assert penalty_matrix({"a": [[0.1, 0.2]] * 2}).tolist() == [[0.0]]
    with pytest.raises(InputError, match="same seeds"):
        penalty_matrix({"a": [[0.1, 0.2]] * 2, "b": [[0.1, 0.2]] * 3})
