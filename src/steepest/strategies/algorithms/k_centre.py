"""Greedy k-centre: again and again the point that is farthest from all centres."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from steepest.core.progress import Progress, SilentProgress, Step
from steepest.errors import InputError
from steepest.strategies.algorithms.picks import Picks, check_count
from steepest.strategies.algorithms.points import Points, nearest_to_mean

_TAKEN = -1.0
_SMALLEST, _LARGEST = 64, 1024


def k_centre(
    points: Tensor,
    k: int,
    *,
    centres: Tensor | None = None,
    outliers: float = 0.0,
    progress: Progress | None = None,
) -> Picks:
    """Pick k points, each the farthest from all centres and from those picked before it.

    The picks are those of the plain greedy algorithm, ties going to the lowest position. The
    distance m(x) to the nearest centre only ever falls. So among the B farthest points the greedy
    order can be followed, with the B × B distances between them, for as long as the best of them
    beats what the next one outside had at the start; then m is brought up to date for all points
    by one matrix product with all the new centres. All points are read once for many picks.

    Args:
        points: Coordinates [N, D].
        k: How many to pick.
        centres: Points that are centres already [M, D]. Without any, the first pick is the point
            nearest the mean.
        outliers: The share of points, farthest from the centres at the start, that are never
            picked.
        progress: Told of each point that is picked.

    Returns:
        The picks, with distances that never rise. A first pick without centres before it has the
        distance of the point farthest from it.

    Raises:
        InputError: If there are fewer than k points, or the share is none.
    """
    check_count(k, len(points))
    with (progress or SilentProgress()).task("choosing", k) as step:
        return _pick(points, k, centres, outliers, step)


def _pick(points: Tensor, k: int, centres: Tensor | None, outliers: float, step: Step) -> Picks:
    dropped = min(count_outliers(outliers, len(points)), len(points) - k)
    start = nearest_to_mean(points)
    space = Points(points, origin=points[start])
    if centres is None or len(centres) == 0:
        nearest = space.nearest_squares(space.take(slice(start, start + 1)))
        nearest[start] = _TAKEN
        picked, squares = [start], [max(0.0, float(nearest.max()))]
        step.advance()
    else:
        nearest = space.nearest_squares(Points(centres.to(points), origin=points[start]))
        picked, squares = [], []
    nearest[nearest.sort(descending=True, stable=True).indices[:dropped]] = _TAKEN
    _continue_greedily(space, nearest, k, picked, squares, step)
    return Picks.of(picked, np.sqrt(np.asarray(squares)))


def count_outliers(share: float, points: int) -> int:
    """Return how many points a share of them is, rounded down.

    Raises:
        InputError: If it is no share below 1.
    """
    if not 0 <= share < 1:
        raise InputError(f"outliers = {share}: give a share of at least 0 and below 1")
    # A share such as 0.29 of 100 must not fall to 28 for the sake of its last bit.
    return min(points - 1, math.floor(share * points + 1e-9))


def _continue_greedily(
    space: Points, nearest: Tensor, k: int, picked: list[int], squares: list[float], step: Step
) -> None:
    """Pick until there are k; squared distances [N] of what is taken are below zero."""
    size = 2 * _SMALLEST
    while len(picked) < k:
        order = nearest.sort(descending=True, stable=True).indices[: size + 1]
        block = order[:size].sort().values
        table = space.take(block).squared_distances().cpu().numpy()
        ends = torch.cat([block, order[-1:]])
        positions, values = ends.cpu().numpy(), nearest[ends].cpu().numpy()
        # Nobody outside is farther than the first one left out; a tie there is lost to its place.
        limit = (values[-1], positions[-1]) if len(order) > size else (_TAKEN, -1)
        found = _greedy_in_block(values[:-1].copy(), table, positions, limit, k - len(picked))
        new = [int(positions[i]) for i, _ in found]
        picked += new
        squares += [square for _, square in found]
        step.advance(len(new))
        if len(picked) < k:
            rows = torch.tensor(new, device=nearest.device)
            torch.minimum(nearest, space.nearest_squares(space.take(rows)), out=nearest)
            nearest[rows] = _TAKEN
        size = min(_LARGEST, max(_SMALLEST, 2 * len(new)))


def _greedy_in_block(
    nearest: npt.NDArray[np.float64],
    table: npt.NDArray[np.float64],
    positions: npt.NDArray[np.int64],
    limit: tuple[float, int],
    most: int,
) -> list[tuple[int, float]]:
    """Return rows of the block and their squared distances, up to where others could come first."""
    found: list[tuple[int, float]] = []
    while len(found) < most:
        best = int(nearest.argmax())
        square = float(nearest[best])
        if square < max(limit[0], 0.0) or (square == limit[0] and positions[best] > limit[1]):
            break
        found.append((best, square))
        np.minimum(nearest, table[best], out=nearest)
        nearest[best] = _TAKEN
    return found
