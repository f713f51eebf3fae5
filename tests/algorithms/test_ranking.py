"""The correlation of ranks is SciPy's."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from steepest.core.seeds import keyed_uniform
from steepest.errors import InputError
from steepest.strategies.algorithms import rank_correlation


def test_rank_correlation_is_spearman_s_ties_included():
    a = np.floor(8 * keyed_uniform(0, "a", range(60))[:, 0])
    b = a + np.floor(8 * keyed_uniform(0, "b", range(60))[:, 0])
    assert rank_correlation(a, b) == pytest.approx(stats.spearmanr(a, b).statistic)


def test_a_constant_has_no_rank_correlation():
    assert rank_correlation(np.ones(5), np.arange(5.0)) is None
    assert rank_correlation(np.ones(1), np.ones(1)) is None
    with pytest.raises(InputError, match="cannot be compared"):
        rank_correlation(np.ones(2), np.ones(3))
