"""Two scorings agree as far as their order, their best and their values do."""

from __future__ import annotations

import numpy as np
import pytest

from steepest.bench.precision import compare_scores, relative_errors

SCORES = np.arange(1.0, 21.0)


def compare(found, wanted=SCORES, top=0.1):
    return compare_scores(np.asarray(found, float), wanted, range(len(wanted)), top, seed=0)


def test_equal_scores_agree_in_everything():
    found = compare(SCORES)
    assert (found.spearman, found.top_count, found.top_common) == (1.0, 2, 2)
    assert (found.median_error, found.largest_error, found.top_share) == (0, 0, 1)


def test_the_order_alone_decides_the_rank_correlation():
    found = compare(SCORES**3)
    assert found.spearman == 1
    assert found.largest_error == pytest.approx(399)
    assert compare(-SCORES).spearman == -1


def test_the_common_part_of_the_top_is_counted():
    found = SCORES.copy()
    found[[0, 19]] = found[[19, 0]]
    agreement = compare(found, top=0.2)
    assert (agreement.top_count, agreement.top_common, agreement.top_share) == (4, 3, 0.75)


def test_at_least_one_sample_is_chosen():
    assert compare(SCORES, top=0.001).top_count == 1


def test_scores_that_are_all_equal_have_no_order():
    assert compare(np.ones(20)).spearman is None


def test_errors_are_relative_and_a_zero_that_is_met_has_none():
    errors = relative_errors(np.array([1.1, 0.0, -3.0]), np.array([1.0, 0.0, -2.0]))
    np.testing.assert_allclose(errors, [0.1, 0, 0.5])
