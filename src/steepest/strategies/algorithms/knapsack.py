"""The most valuable set of samples that a budget pays for: the 0-1 knapsack problem, exactly."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from steepest.errors import InputError

_LIMIT_BYTES = 1 << 26
"""Of the bits that say who was taken at which budget; beyond it the samples are split."""

Values = npt.NDArray[np.float64]
Costs = npt.NDArray[np.int64]


def choose_within_budget(
    values: Sequence[float] | Values,
    costs: Sequence[float] | npt.NDArray[np.generic],
    budget: float,
    *,
    unit: float = 1.0,
) -> npt.NDArray[np.intp]:
    """Return the set of samples of the highest total value whose costs fit into a budget.

    Costs are counted in whole units, rounded up, so that the budget is never exceeded. With equal
    costs these are the samples of the highest values; of equal values the first ones. Samples
    without value are left out.

    Takes O(N · Q) time for a budget of Q units, and O(N + Q) memory beside bounded scratch space.

    Args:
        values: How much each is wanted [N]; at least 0, such as scores.
        costs: The cost of labelling each [N]; at least 0, in the budget's terms.
        budget: The total cost allowed.
        unit: How finely costs are distinguished; larger is quicker.

    Returns:
        Positions, in rising order.

    Raises:
        InputError: If a value, cost or the budget is negative or not finite, or there is not one
            cost for each value.
    """
    worth = np.asarray(values, dtype=np.float64)
    spent = np.asarray(costs, dtype=np.float64)
    if worth.ndim != 1 or worth.shape != spent.shape:
        raise InputError(f"{spent.size} costs for {worth.size} values: one for each is needed")
    if not unit > 0 or not np.isfinite([budget, unit]).all() or budget < 0:
        raise InputError(f"budget must be at least 0 and unit above 0, not {budget} and {unit}")
    for what, numbers in (("value", worth), ("cost", spent)):
        if numbers.size and not (np.isfinite(numbers).all() and numbers.min() >= 0):
            raise InputError(f"every {what} must be a finite number of at least 0")
    # A cost of 0.3 is three units of 0.1, though their quotient is a little more.
    whole: Costs = np.ceil(spent / unit - 1e-9).astype(np.int64)
    total = int(np.floor(budget / unit + 1e-9))
    total = min(total, int(whole.sum()))
    rows = np.flatnonzero((whole <= total) & (worth > 0))
    return rows[_best(worth[rows], whole[rows], total)]


def _best(values: Values, costs: Costs, budget: int) -> npt.NDArray[np.intp]:
    """Return the best set: by its bits if they fit into memory, otherwise half by half.

    The best totals of both halves say how to share the budget between them; each half is then a
    problem of its own. That doubles the time and keeps no bits.
    """
    count = len(values)
    if count == 0:
        return np.empty(0, dtype=np.intp)
    if count == 1 or count * (budget // 8 + 1) <= _LIMIT_BYTES:
        return _trace(values, costs, budget)
    half = count // 2
    first = _totals(values[:half], costs[:half], budget)
    second = _totals(values[half:], costs[half:], budget)
    # Of equal sums the one that leaves most to the first half: its samples win ties.
    share = budget - int(np.argmax((first + second[::-1])[::-1]))
    left = _best(values[:half], costs[:half], share)
    right = _best(values[half:], costs[half:], budget - share)
    return np.concatenate([left, right + half])


def _totals(values: Values, costs: Costs, budget: int) -> Values:
    """Return the best total for every budget from 0 on [Q + 1]."""
    best = np.zeros(budget + 1)
    for value, cost in zip(values.tolist(), costs.tolist(), strict=True):
        _take_where_better(best, value, cost)
    return best


def _trace(values: Values, costs: Costs, budget: int) -> npt.NDArray[np.intp]:
    """Return the best set by following, from the last sample back, who was taken."""
    best = np.zeros(budget + 1)
    bits = np.empty((len(values), budget // 8 + 1), dtype=np.uint8)
    for row, (value, cost) in enumerate(zip(values.tolist(), costs.tolist(), strict=True)):
        bits[row] = np.packbits(_take_where_better(best, value, cost))
    taken: list[int] = []
    left = budget
    for row in range(len(bits) - 1, -1, -1):
        if bits[row, left >> 3] >> (7 - (left & 7)) & 1:
            taken.append(row)
            left -= int(costs[row])
    return np.asarray(taken[::-1], dtype=np.intp)


def _take_where_better(best: Values, value: float, cost: int) -> npt.NDArray[np.bool_]:
    """Let one more sample improve the totals in place; return at which budgets it did [Q + 1]."""
    taken = np.zeros(len(best), dtype=np.bool_)
    if cost >= len(best):
        return taken
    with_it = best[: len(best) - cost] + value
    np.greater(with_it, best[cost:], out=taken[cost:])
    np.maximum(best[cost:], with_it, out=best[cost:])
    return taken
