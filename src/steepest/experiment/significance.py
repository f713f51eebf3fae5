"""Do two strategies differ: paired tests, Holm's correction and the penalty matrix."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from steepest.errors import InputError

Floats = npt.NDArray[np.float64]

NO_DIFFERENCE = "no seed differs at all"
"""Note where the difference is zero for every seed."""

_NO_SPREAD = (
    "every seed differs by the same amount: without spread the t-test has nothing to judge by"
)


@dataclass(frozen=True)
class PairedTest:
    """Paired tests of the difference of two strategies.

    Attributes:
        n: Number of pairs.
        mean_difference: Mean of ``a - b``.
        low: Lower end of the 95 % confidence interval, None without spread between seeds.
        high: Upper end of the interval.
        t_p: Two-sided p-value of the paired t-test, None where it is not defined.
        wilcoxon_p: Two-sided exact p-value of the signed-rank test, None below two pairs.
        note: Why a value is missing, or an empty string.
    """

    n: int
    mean_difference: float
    low: float | None
    high: float | None
    t_p: float | None
    wilcoxon_p: float | None
    note: str = ""


def paired_tests(a: npt.ArrayLike, b: npt.ArrayLike) -> PairedTest:
    """Test whether paired values differ.

    With ``d = a - b``, ``t = mean(d) / (sd(d) / sqrt(S))`` is compared with Student's t with
    ``S - 1`` degrees of freedom, and the interval is ``mean(d) ± t(0.975, S - 1) * sd(d) /
    sqrt(S)``. One pair gives no p-value. If all differences are zero, both p-values are 1. If
    they are all the *same* other number, ``t`` would be infinite and p zero, which a handful of
    seeds cannot mean: the t-test is then left undefined, with a note. Neither has an interval: one
    without width would claim a certainty that seeds cannot give, as metrics move in steps.

    Args:
        a: One value per seed [S].
        b: One value per seed, in the same order [S].
    """
    first = np.asarray(a, dtype=np.float64)
    second = np.asarray(b, dtype=np.float64)
    if first.ndim != 1 or first.shape != second.shape or first.size == 0:
        raise InputError(f"values of {first.shape} and {second.shape}: give one pair per seed")
    differences = first - second
    if not np.isfinite(differences).all():
        raise InputError("paired values hold NaN or infinity: leave out what was not measured")
    n = differences.size
    mean = float(differences.mean())
    if n < 2:
        return PairedTest(n, mean, None, None, None, None, "one seed has no spread to judge by")
    rounding = _rounding(first, second)
    wilcoxon = _signed_rank_p(differences, rounding)
    if not _varies(differences[None, :], rounding)[0]:
        if abs(mean) <= rounding:
            return PairedTest(n, 0.0, None, None, 1.0, 1.0, NO_DIFFERENCE)
        return PairedTest(n, mean, None, None, None, wilcoxon, _NO_SPREAD)
    from scipy import stats

    error = float(differences.std(ddof=1)) / np.sqrt(n)
    half = float(stats.t.ppf(0.975, n - 1)) * error
    p = float(2.0 * stats.t.sf(abs(mean) / error, n - 1))
    return PairedTest(n, mean, float(mean - half), float(mean + half), p, wilcoxon)


def smallest_wilcoxon_p(n: int) -> float:
    """Return the smallest two-sided p-value that ``n`` pairs can give: ``2 / 2**n``.

    Below six pairs it is above 0.05, however large the differences are.
    """
    return min(1.0, 2.0 / 2.0**n)


def holm(pvalues: Sequence[float | None]) -> tuple[float | None, ...]:
    """Adjust p-values for their number by Holm's step-down rule.

    Sorted ``p(1) <= ... <= p(m)`` become ``max over j <= i of min(1, (m - j + 1) * p(j))``; to
    reject where the result is at most 0.05 keeps the chance of any false rejection in the
    family below 5 %. None (no test) passes through and does not count in ``m``.
    """
    known = sorted((p, index) for index, p in enumerate(pvalues) if p is not None)
    adjusted: list[float | None] = [None] * len(pvalues)
    running = 0.0
    for rank, (p, index) in enumerate(known):
        running = max(running, min(1.0, (len(known) - rank) * p))
        adjusted[index] = running
    return tuple(adjusted)


def penalty_matrix(curves: Mapping[str, npt.ArrayLike], alpha: float = 0.05) -> Floats:
    """Return how often each strategy beats each other one.

    ``P[i, j]`` is the share of budgets at which ROW i is significantly better than COLUMN j:
    its mean over seeds is higher and a two-sided paired t-test gives ``p < alpha``. The first
    budget is left out, since there all strategies hold the same labels. So a row's mean is how
    often that strategy wins (higher is better), and a column's mean is how often it is beaten
    (lower is better). Differences without any spread over seeds count as no win.

    Args:
        curves: Values [S, B] of each strategy: the same seeds, the same budgets.
        alpha: Level of each test; there is no correction for their number.

    Returns:
        Shares in [0, 1] with a zero diagonal [K, K], in the order of the mapping.
    """
    arrays = [np.asarray(curve, dtype=np.float64) for curve in curves.values()]
    shape = arrays[0].shape if arrays else ()
    if len(shape) != 2 or any(array.shape != shape for array in arrays):
        raise InputError("curves of different shapes: give the same seeds and budgets to all")
    if shape[0] < 2 or shape[1] < 2:
        raise InputError(
            f"{shape[0]} seeds and {shape[1]} budgets: the penalty matrix needs two of each"
        )
    matrix = np.zeros((len(arrays), len(arrays)))
    for i, row in enumerate(arrays):
        for j, column in enumerate(arrays):
            if i != j:
                rounding = _rounding(row, column)
                matrix[i, j] = _wins((row - column)[:, 1:].T, alpha, rounding).mean()
    return matrix


def _wins(differences: Floats, alpha: float, rounding: float) -> npt.NDArray[np.bool_]:
    """Say for each row of differences [B, S] whether it is significantly above zero [B]."""
    from scipy import stats

    n = differences.shape[1]
    varies = _varies(differences, rounding)
    error = np.where(varies, differences.std(axis=1, ddof=1) / np.sqrt(n), 1.0)
    t = np.where(varies, differences.mean(axis=1) / error, 0.0)
    wins: npt.NDArray[np.bool_] = (2.0 * stats.t.sf(t, n - 1) < alpha) & (t > 0)
    return wins


def _rounding(first: Floats, second: Floats) -> float:
    """Return the size below which a difference of these values is rounding error.

    It goes by the values, not by their differences: 0.1 between numbers of a million leaves as many
    wrong digits behind as a million does.
    """
    return 1e-12 * max(1.0, float(np.abs(first).max()), float(np.abs(second).max()))


def _varies(differences: Floats, rounding: float) -> npt.NDArray[np.bool_]:
    """Say for each row [B, S] whether it has any spread beyond rounding error [B]."""
    spread: npt.NDArray[np.bool_] = np.ptp(differences, axis=1) > rounding
    return spread


def _signed_rank_p(differences: Floats, rounding: float) -> float:
    """Return the exact two-sided p-value of Wilcoxon's signed-rank test.

    Zeros are dropped (Wilcoxon's own rule) and equal sizes share their mean rank. The null
    distribution is counted over all sign patterns of *these* ranks, so it is exact with ties
    as well, which are common: accuracies on a small test set move in steps.
    """
    from scipy import stats

    # Equal steps of a metric differ in their last bits once subtracted; ranks must not see it.
    sizes = np.rint(differences / rounding)
    sizes = sizes[sizes != 0]
    doubled = np.rint(2 * stats.rankdata(np.abs(sizes))).astype(np.int64)
    ways = np.zeros(int(doubled.sum()) + 1)
    ways[0] = 1.0
    for rank in doubled:
        shifted = np.zeros_like(ways)
        shifted[rank:] = ways[: ways.size - rank]
        ways = (ways + shifted) / 2.0
    positive = int(doubled[sizes > 0].sum())
    tail = min(float(ways[: positive + 1].sum()), float(ways[positive:].sum()))
    return min(1.0, 2.0 * tail)
