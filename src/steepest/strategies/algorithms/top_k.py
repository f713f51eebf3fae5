"""The k highest scores."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from steepest.core.seeds import SampleId, keyed_uniform

_ROUNDING = 5e-7
"""What single precision may change in a score, as a share of it, and of what others are like: some
scores are differences of larger numbers."""


def top_k(
    values: npt.NDArray[np.float64], ids: Sequence[SampleId], k: int, seed: int
) -> npt.NDArray[np.intp]:
    """Return the positions of the k highest values, best first.

    Values that differ by no more than single precision rounds count as equal: copies of one sample
    have scores that differ in the last bits, by where in its batch each was. Ties are broken by a
    draw keyed by sample id: the same ids win in any order of the pool, and in batches of any size.

    Args:
        values: Scores [N].
        ids: Ids [N].
        k: How many.
        seed: Seeds the draw.

    Returns:
        Positions [k].
    """
    typical = _typical_size(values)
    near = _in_question(values, k, typical)
    order = near[np.argsort(-values[near], kind="stable")]
    ties = keyed_uniform(seed, "ties", [ids[position] for position in order])[:, 0]
    return order[np.lexsort((ties, _levels(values[order], typical)))][:k]


def _typical_size(values: npt.NDArray[np.float64]) -> float:
    """Return the size that most scores are below.

    Not the largest: beside one of a heavy tail all others would be equal.
    """
    size = np.where(np.isfinite(values), np.abs(values), 0.0)
    return float(np.quantile(size, 0.9, method="lower")) if len(size) else 0.0


def _in_question(values: npt.NDArray[np.float64], k: int, typical: float) -> npt.NDArray[np.intp]:
    """Return the positions of all values that can be among the k highest, in the pool's order.

    A level that begins at h holds nothing below h − r for its rounding r. Where it has the k-th
    value v, h is at most r above v: scores more than 2 r below v are in none of the first k.
    """
    if not 0 < k < len(values):
        return np.arange(len(values))
    last = np.partition(values, len(values) - k)[len(values) - k]
    size = abs(last) if np.isfinite(last) else 0.0
    # Thrice: the rounding is that of h, which is a little larger than v's.
    found = np.flatnonzero(values >= last - 3 * _ROUNDING * (size + typical))
    return found if len(found) >= k else np.arange(len(values))


def _levels(falling: npt.NDArray[np.float64], typical: float) -> npt.NDArray[np.intp]:
    """Number the levels of sorted values: all of one lie within rounding of its highest.

    Args:
        falling: Scores [N], highest first.
        typical: What scores are like.

    Returns:
        Levels [N], from 0 on.
    """
    if not len(falling):
        return np.zeros(0, dtype=np.intp)
    size = np.abs(falling)
    size[~np.isfinite(size)] = 0.0
    rounding = _ROUNDING * (size + typical)
    with np.errstate(invalid="ignore"):  # Two infinities are equal, and their difference is NaN.
        gaps = falling[:-1] - falling[1:]
    new = np.zeros(len(falling), dtype=bool)
    new[1:] = gaps > rounding[:-1]
    edges = np.flatnonzero(np.concatenate(([True], new[1:], [True])))
    starts, stops = edges[:-1], edges[1:]
    # Many close neighbours in a row may lie far apart in the end: such a chain has levels within.
    with np.errstate(invalid="ignore"):
        long = falling[starts] - falling[stops - 1] > rounding[starts]
    for first, stop in zip(starts[long], stops[long], strict=True):
        highest = first
        for row in range(first + 1, stop):
            if falling[highest] - falling[row] > rounding[highest]:
                highest, new[row] = row, True
    levels: npt.NDArray[np.intp] = np.cumsum(new)
    return levels
