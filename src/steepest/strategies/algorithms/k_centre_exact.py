"""The k-centre problem solved to the end, for small sets of points."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from steepest.errors import InputError
from steepest.strategies.algorithms.k_centre import count_outliers, k_centre
from steepest.strategies.algorithms.picks import Picks, check_count

LIMIT = 2000
"""The largest number of points: the programme holds a term for every pair of near ones."""

_NODES = 10_000
"""How far a programme is followed. One that is not decided by then counts as without a solution,
and the outcome as not proved."""


@dataclass(frozen=True, eq=False)
class ExactCentres:
    """The best centres that were found.

    Attributes:
        picks: In the order of greedy k-centre among themselves.
        radius: The largest distance of a point to its nearest centre, outliers aside.
        proved: Whether no choice has a smaller one.
    """

    picks: Picks
    radius: float
    proved: bool


def k_centre_exact(
    points: Tensor,
    k: int,
    *,
    centres: Tensor | None = None,
    outliers: float = 0.0,
) -> ExactCentres:
    """Pick the k points that leave the smallest distance to the nearest centre.

    The radius sought is one of the distances between points. A binary search over those asks a
    mixed-integer programme for each whether k points can cover all others within it:
    Σ_j y_j = k, Σ_{j: d_ij ≤ δ} y_j + z_i ≥ 1 for every point i that no given centre covers, and
    Σ_i z_i ≤ the number of outliers, with y and z of 0 or 1.

    Args:
        points: Coordinates [N, D]; at most ``LIMIT`` of them.
        k: How many to pick.
        centres: Points that are centres already [M, D].
        outliers: The share of points that need not be covered.

    Raises:
        InputError: If there are too many points, or fewer than k.
    """
    check_count(k, len(points))
    check_size(len(points))
    spared = count_outliers(outliers, len(points))
    points = points.cpu()
    given = points[:0] if centres is None else centres.to(points)
    between, to_given = _distances(points, given)
    best = k_centre(points, k, centres=given, outliers=outliers).positions
    sizes = np.unique(np.concatenate([between.ravel(), to_given[np.isfinite(to_given)]]))
    low, proved = -1, True
    high = int(np.searchsorted(sizes, _radius(between, to_given, best, spared)))
    while high - low > 1:
        middle = (low + high) // 2
        solution, decided = _cover(between, to_given, sizes[middle], k, spared)
        proved &= decided
        if solution is None:
            low = middle
        else:
            high, best = middle, solution
    best = np.sort(best)
    order = k_centre(points[torch.from_numpy(best)], k, centres=given)
    picks = Picks(best[order.positions], order.scores)
    return ExactCentres(picks, _radius(between, to_given, best, spared), proved)


def check_size(points: int) -> None:
    """Refuse more points than can be solved for.

    Raises:
        InputError: With an alternative.
    """
    if points > LIMIT:
        raise InputError(
            f"exact k-centre takes at most {LIMIT} points, not {points}: use the greedy method, "
            "or a subset"
        )


def _distances(
    points: Tensor, given: Tensor
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return distances between points [N, N] and to the nearest given centre [N]."""
    straight = "donot_use_mm_for_euclid_dist"
    points = points.double()
    between = torch.cdist(points, points, compute_mode=straight)
    nearest = points.new_full([len(points)], torch.inf)
    for start in range(0, len(given), LIMIT):
        part = given[start : start + LIMIT].double()
        found = torch.cdist(points, part, compute_mode=straight).amin(1)
        nearest = torch.minimum(nearest, found)
    return between.numpy(), nearest.numpy()


def _radius(
    between: npt.NDArray[np.float64],
    to_given: npt.NDArray[np.float64],
    chosen: npt.NDArray[np.intp],
    spared: int,
) -> float:
    """Return the largest distance to the nearest centre, but for some points."""
    nearest = np.minimum(to_given, between[:, chosen].min(1))
    return float(np.sort(nearest)[len(nearest) - 1 - spared])


def _cover(
    between: npt.NDArray[np.float64],
    to_given: npt.NDArray[np.float64],
    radius: float,
    k: int,
    spared: int,
) -> tuple[npt.NDArray[np.intp] | None, bool]:
    """Return k points that cover all others within a radius, and whether that was decided."""
    from scipy import optimize, sparse

    open_rows = np.flatnonzero(to_given > radius)
    total = len(between)
    near = sparse.csr_array((between[open_rows] <= radius).astype(np.float64))
    left_out = sparse.eye_array(len(open_rows), format="csr")
    count = np.concatenate([np.ones(total), np.zeros(len(open_rows))])[None, :]
    constraints: list[Any] = [optimize.LinearConstraint(count, k, k)]
    if len(open_rows):
        constraints.append(optimize.LinearConstraint(sparse.hstack([near, left_out]), 1, np.inf))
        constraints.append(optimize.LinearConstraint(1 - count, 0, spared))
    found = optimize.milp(
        np.zeros(count.shape[1]),
        integrality=np.ones(count.shape[1]),
        bounds=optimize.Bounds(0, 1),
        constraints=constraints,
        options={"node_limit": _NODES},
    )
    if found.x is None:
        return None, found.status == 2
    return np.flatnonzero(found.x[:total] > 0.5), True
