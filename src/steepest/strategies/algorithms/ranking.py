"""Agreement of two rankings: the correlation of their ranks."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from steepest.errors import InputError

Values = npt.NDArray[np.float64]
"""One number per sample [N]."""


def rank_correlation(a: Values, b: Values) -> float | None:
    """Return Spearman's correlation; None if either ranking is constant.

    Raises:
        InputError: If there are not as many values of one as of the other.
    """
    if len(a) != len(b):
        raise InputError(f"{len(a)} and {len(b)} values cannot be compared: give one of each")
    if len(a) < 2:
        return None
    ranks = [_ranks(values) for values in (a, b)]
    if any(np.ptp(values) == 0 for values in ranks):
        return None
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1])


def _ranks(values: Values) -> Values:
    """Return ranks [N]; ties share the mean of their places."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return (last - (counts - 1) / 2)[place]
