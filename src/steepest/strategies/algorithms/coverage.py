"""Greedy coverage: rows that lie near as much weight as possible that nothing lies near yet."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from steepest.core.progress import Progress, SilentProgress, Step
from steepest.strategies.algorithms.coverage_state import (
    BLOCK,
    Coverage,
    ListedPairs,
    rounding_square,
)
from steepest.strategies.algorithms.distances import (
    relative_squares,
    squared_lengths,
    tiles,
)
from steepest.strategies.algorithms.picks import Picks, check_count

WIDTH_ROWS = 2048
"""Largest number of rows to take the median distance over."""


def median_square(rows: Tensor, neighbour: int, sample: int = WIDTH_ROWS) -> float:
    """Return the median squared distance of a row to its m-th nearest other row.

    Args:
        rows: [N, D].
        neighbour: m, from 1; at most N − 1 counts.
        sample: The median is taken over so many rows from the start; neighbours are looked for
            among all.

    Returns:
        More than 0: if the median is not, the mean of those distances that are, and 1 if none is.
    """
    rank = min(neighbour, len(rows) - 1)
    if rank < 1:
        return 1.0
    found = rows.new_empty(min(sample, len(rows)))
    lengths = squared_lengths(rows)
    for part in tiles(len(found), len(rows) * rows.element_size()):
        table = relative_squares(rows[part], rows, lengths).add_(lengths[part, None])
        # Each row is its own nearest.
        table[torch.arange(len(table)), torch.arange(part.start, part.stop)] = -torch.inf
        found[part] = table.kthvalue(rank + 1, dim=1).values
    found[found <= rounding_square(rows)] = 0
    median = float(found.double().median())
    if median > 0:
        return median
    away = found[found > 0].double()
    return float(away.mean()) if len(away) else 1.0


_Gains = dict[int, float]
"""The gain of each row that was taken, in the order of taking."""


def greedy_coverage(
    rows: Tensor,
    weights: Tensor,
    k: int,
    width: float,
    *,
    centres: Tensor | None = None,
    witnesses: int | None = None,
    progress: Progress | None = None,
) -> Picks:
    """Take k rows one by one, each with the largest gain of Σ_x w(x) max_s exp(−‖x − s‖²/2σ²).

    The choice is that of computing every gain for every pick. Two things save most of that work.
    The gain of a row only falls as others are taken: what it was when it was last computed is a
    bound, and the rows of the highest bounds are computed again until the best of them beats the
    bounds of all others. And a pair of rows counts only while they are nearer to each other than
    the one is to what was taken: as soon as ``LISTED_PAIRS`` hold all such pairs, these are
    listed, and a pick changes the gains of its surroundings alone. There is never a matrix of all
    pairs. Memory beside the rows: O(N), tiles, ``CACHE_BYTES`` and the listed pairs.

    Args:
        rows: Candidates [N, D], of length about 1.
        weights: The value of covering each [N], at least 0.
        k: How many to take.
        width: σ², more than 0.
        centres: Rows that cover from the beginning [M, D].
        witnesses: Sum over so many rows from the start instead of all; all can be taken.
        progress: Updated after each row.

    Returns:
        The rows in the order of taking. Of gains that differ by rounding the first row's is taken.
    """
    check_count(k, len(rows))
    shown = progress or SilentProgress()
    space = Coverage(rows, weights, width, witnesses)
    if centres is not None and len(centres):
        space.cover(centres)
    found: _Gains = {}
    with shown.task("choosing", k) as step:
        if not space.fits_in_lists():
            _take_by_bounds(space, k, found, step, shown)
        if len(found) < k:
            _take_from_lists(space, k, found, step)
        if len(found) < k:
            _fill(len(rows), k, found, step)
    return Picks.of(list(found), list(found.values()))


def total_coverage(rows: Tensor, weights: Tensor, width: float, centres: Tensor) -> float:
    """Return Σ_x w(x) max_s exp(−‖x − s‖²/2σ²) for given centres.

    Args:
        rows: [N, D].
        weights: [N].
        width: σ².
        centres: [M, D], at least one.
    """
    space = Coverage(rows, weights, width, None)
    space.cover(centres)
    return float(space.covered.double() @ weights.to(space.covered.device, torch.float64))


def _take_by_bounds(space: Coverage, k: int, found: _Gains, step: Step, progress: Progress) -> None:
    """Take rows, each by the bounds of all others, until the pairs that count can be listed."""
    bounds = space.all_gains(progress)
    while len(found) < k and not space.fits_in_lists():
        at = _best(space, bounds)
        if not bounds[at] > space.nothing:
            return
        found[at] = float(bounds[at])
        space.take(at)
        bounds[at] = -math.inf
        step.advance()


def _take_from_lists(space: Coverage, k: int, found: _Gains, step: Step) -> None:
    """Take rows by gains that are kept up to date, as long as there is something to gain."""
    lists = ListedPairs(space)
    while len(found) < k:
        at, gain = lists.best()
        if not gain > space.nothing:
            return
        found[at] = gain
        lists.take(at)
        step.advance()


def _fill(count: int, k: int, found: _Gains, step: Step) -> None:
    """Take rows that gain nothing, in their order: everything is covered."""
    free = np.ones(count, dtype=bool)
    free[list(found)] = False
    rest = np.flatnonzero(free)[: k - len(found)].tolist()
    found.update(dict.fromkeys(rest, 0.0))
    step.advance(len(rest))


def _best(space: Coverage, bounds: npt.NDArray[np.float64]) -> int:
    """Return the row of the highest gain; bounds that are computed again are lowered in place."""
    fresh = np.zeros(len(bounds), dtype=bool)
    highest = -math.inf
    while True:
        # Nothing is looked at that cannot even come near the best so far.
        least = max(highest * (1 - space.equal), space.nothing)
        left = np.flatnonzero(~fresh & (bounds >= least))
        if not len(left):
            break
        if len(left) > BLOCK:
            left = np.sort(left[np.argpartition(-bounds[left], BLOCK)[:BLOCK]])
        bounds[left] = space.gains(left)
        fresh[left] = True
        highest = max(highest, float(bounds[left].max()))
    if not fresh.any():
        return int(bounds.argmax())
    return int(np.flatnonzero(fresh & (bounds >= highest * (1 - space.equal)))[0])
