"""Learning curves as numbers: mean with a band, area under the curve, labels to reach a target."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from steepest.errors import InputError

Floats = npt.NDArray[np.float64]


class Band(NamedTuple):
    """A mean curve with a confidence interval at each budget.

    Attributes:
        mean: Mean over seeds [B].
        low: Lower end of the interval [B].
        high: Upper end of the interval [B].
        n: How many curves the mean is over; with one, the interval has no width.
    """

    mean: Floats
    low: Floats
    high: Floats
    n: int


def mean_and_band(curves: npt.ArrayLike, confidence: float = 0.95) -> Band:
    """Average curves and bound the mean by Student's t.

    At each budget the interval is ``mean ± t(1 - (1 - confidence) / 2, S - 1) * sd / sqrt(S)``
    with the sample standard deviation ``sd`` (divisor ``S - 1``). One curve says nothing of the
    spread: its band is the curve itself and ``n`` is 1.

    Args:
        curves: One curve per seed [S, B].
        confidence: Probability that the interval covers the true mean, between 0 and 1.
    """
    values = _finite(curves, "curves", dimensions=2)
    if not 0.0 < confidence < 1.0:
        raise InputError(f"confidence is {confidence}: give a number between 0 and 1")
    n = values.shape[0]
    mean: Floats = values.mean(axis=0)
    if n == 1:
        return Band(mean, mean.copy(), mean.copy(), n)
    from scipy import stats

    half = stats.t.ppf(0.5 + confidence / 2.0, n - 1) * values.std(axis=0, ddof=1) / np.sqrt(n)
    return Band(mean, mean - half, mean + half, n)


def aubc(budgets: npt.ArrayLike, values: npt.ArrayLike) -> float:
    """Return the area under the budget curve, normalised.

    ``sum_i (b[i+1] - b[i]) * (a[i] + a[i+1]) / 2`` divided by ``b[last] - b[first]``: the mean
    height of the curve, so a constant value ``a`` gives ``a`` whatever the budgets are. A
    curve of a single point is as high as that point.

    Args:
        budgets: Numbers of labels, strictly increasing [B].
        values: The metric at each budget [B]; higher is better.
    """
    b, a = _curve(budgets, values)
    if b.size == 1:
        return float(a[0])
    steps = np.diff(b)
    return float((steps * (a[1:] + a[:-1]) / 2.0).sum() / steps.sum())


def labels_to_reach(budgets: npt.ArrayLike, values: npt.ArrayLike, target: float) -> float | None:
    """Return the first budget at which the curve has reached the target.

    The curve is the running maximum of the values, joined by straight lines: a model that
    was once good enough stays so, since the earlier model can be kept.

    Args:
        budgets: Numbers of labels, strictly increasing [B].
        values: The metric at each budget [B]; higher is better.
        target: Value to reach.

    Returns:
        The number of labels, between two budgets as a rule, or None if it is never reached.
    """
    b, a = _curve(budgets, values)
    best = np.maximum.accumulate(a)
    if best[-1] < target:
        return None
    at = int(np.argmax(best >= target))
    if at == 0:
        return float(b[0])
    share = (target - best[at - 1]) / (best[at] - best[at - 1])
    return float(b[at - 1] + share * (b[at] - b[at - 1]))


def labels_to_match(
    budgets: npt.ArrayLike, values: npt.ArrayLike, baseline: npt.ArrayLike
) -> tuple[float | None, ...]:
    """Return, per seed, the labels needed to reach the baseline's final value.

    ``labels_to_reach(budgets, values[s], baseline[s, last])``: each seed has its own target, that
    of the baseline with the same initial set and weights.

    Args:
        budgets: Numbers of labels, strictly increasing [B].
        values: The strategy's curves [S, B].
        baseline: The baseline's curves, seed by seed [S, B].

    Returns:
        Labels needed [S]; None for a seed that never reaches its target.
    """
    own = _finite(values, "values", dimensions=2)
    other = _finite(baseline, "baseline", dimensions=2)
    if own.shape != other.shape:
        raise InputError(f"curves of {own.shape} and {other.shape}: give the same seeds to both")
    return tuple(labels_to_reach(budgets, a, float(b[-1])) for a, b in zip(own, other, strict=True))


def labels_saved(
    budgets: npt.ArrayLike, values: npt.ArrayLike, baseline: npt.ArrayLike
) -> tuple[float | None, ...]:
    """Return, per seed, the labels saved on the way to the baseline's final value.

    The labels that the baseline itself needs to reach its final value for the first time, less
    those that the strategy needs for it. A baseline that stops getting better reaches it long
    before its last budget, and what it buys after that is no saving of another's. The number is
    negative where the strategy is later than the baseline.

    Args:
        budgets: Numbers of labels, strictly increasing [B].
        values: The strategy's curves [S, B].
        baseline: The baseline's curves, seed by seed [S, B].

    Returns:
        Labels saved [S]; None for a seed in which the strategy never reaches its target.
    """
    needed = labels_to_match(budgets, values, baseline)
    reference = labels_to_match(budgets, baseline, baseline)
    return tuple(
        None if own is None or other is None else other - own
        for own, other in zip(needed, reference, strict=True)
    )


def _curve(budgets: npt.ArrayLike, values: npt.ArrayLike) -> tuple[Floats, Floats]:
    b = _finite(budgets, "budgets", dimensions=1)
    a = _finite(values, "values", dimensions=1)
    if b.size != a.size:
        raise InputError(f"{b.size} budgets for {a.size} values: give one of each per cycle")
    if np.any(np.diff(b) <= 0):
        raise InputError("budgets do not increase: give them in the order they were labelled")
    return b, a


def _finite(values: npt.ArrayLike, name: str, dimensions: int) -> Floats:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != dimensions or array.size == 0:
        raise InputError(
            f"{name} has shape {array.shape}: give {dimensions} non-empty dimension(s)"
        )
    if not np.isfinite(array).all():
        raise InputError(f"{name} holds NaN or infinity: leave out what was not measured")
    return array
