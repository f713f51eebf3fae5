"""D² sampling, the seeding of k-means++: points are drawn by how far they are from those drawn."""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from steepest.core.progress import Progress, SilentProgress, Step
from steepest.errors import UnknownNameError
from steepest.strategies.algorithms.picks import Picks, check_count
from steepest.strategies.algorithms.points import Points

First = Literal["norm", "random"]
"""The first pick: the point of the largest norm, or any with the same chance."""

_SMALLEST, _LARGEST = 64, 1024


def d2_sample(
    points: Tensor,
    k: int,
    draws: torch.Generator,
    *,
    first: First = "norm",
    progress: Progress | None = None,
) -> Picks:
    """Draw k points, each with a chance ∝ D², its squared distance to the nearest drawn before.

    The distribution is exactly that of drawing one point after another. Many are drawn for one
    reading of all points: candidates are proposed by the D² of the round's start, and each is
    accepted with the chance D²_now / D²_then, where D²_now knows those accepted before it in this
    round. No point is drawn twice. When all points that are left lie on drawn ones, the rest is
    drawn evenly.

    Args:
        points: Coordinates [N, D].
        k: How many to draw.
        draws: A generator on the CPU.
        first: How the first one is found.
        progress: Told of each point that is drawn.

    Returns:
        The picks with their D at the time; for the first, its norm.

    Raises:
        InputError: If there are fewer than k points.
    """
    return _sample(Points(points), k, draws, first, progress)


def d2_sample_products(
    left: Tensor,
    right: Tensor,
    k: int,
    draws: torch.Generator,
    *,
    first: First = "norm",
    progress: Progress | None = None,
) -> Picks:
    """Draw as ``d2_sample`` does from the outer products a ⊗ z, which are never made.

    Args:
        left: Vectors a [N, C].
        right: Vectors z [N, D].
        k: How many to draw.
        draws: A generator on the CPU.
        first: How the first one is found.
        progress: Told of each point that is drawn.
    """
    return _sample(Points(left, right), k, draws, first, progress)


def _sample(
    space: Points, k: int, draws: torch.Generator, first: First, progress: Progress | None
) -> Picks:
    check_count(k, len(space))
    if first not in ("norm", "random"):
        raise UnknownNameError("first pick", first, ("norm", "random"))
    with (progress or SilentProgress()).task("choosing", k) as step:
        return _draw(space, k, draws, first, step)


def _draw(space: Points, k: int, draws: torch.Generator, first: First, step: Step) -> Picks:
    picked = [_first(space, draws, first)]
    squares = [float(space.squares[picked[0]])]
    nearest = torch.full_like(space.squares, torch.inf)
    step.advance()
    new, size = picked, _SMALLEST
    while len(picked) < k:
        rows = torch.tensor(new, device=space.device)
        torch.minimum(nearest, space.nearest_squares(space.take(rows)), out=nearest)
        nearest[rows] = 0.0
        mass = nearest.cpu().numpy()
        if not mass.any():
            new = _draw_evenly(len(space), picked, k, draws)
            found = [(position, 0.0) for position in new]
        else:
            found = _draw_by_rejection(space, mass, size, draws)[: k - len(picked)]
            new = [position for position, _ in found]
        picked = picked + new
        squares += [square for _, square in found]
        step.advance(len(new))
        size = min(_LARGEST, max(_SMALLEST, 2 * len(new)))
    return Picks.of(picked, np.sqrt(np.asarray(squares)))


def _first(space: Points, draws: torch.Generator, first: First) -> int:
    if first == "random" or not bool(space.squares.any()):
        return int(torch.randint(len(space), (1,), generator=draws))
    return int(space.squares.argmax())


def _draw_evenly(points: int, picked: list[int], k: int, draws: torch.Generator) -> list[int]:
    rest = np.setdiff1d(np.arange(points), picked)
    order = torch.randperm(len(rest), generator=draws)[: k - len(picked)]
    return [int(position) for position in rest[order.numpy()]]


def _draw_by_rejection(
    space: Points, mass: npt.NDArray[np.float64], size: int, draws: torch.Generator
) -> list[tuple[int, float]]:
    """Return positions with their D², drawn one after another from ``size`` proposals."""
    up_to = mass.cumsum()
    uniform = torch.rand(2, size, generator=draws, dtype=torch.float64).numpy()
    proposed = np.searchsorted(up_to, uniform[0] * up_to[-1], side="right")
    # A product that rounds up to the whole mass must not lead past the last point that has some.
    proposed = np.minimum(proposed, np.flatnonzero(mass)[-1])
    rows = torch.from_numpy(proposed).to(space.device)
    table = space.take(rows).squared_distances().cpu().numpy()
    now = mass[proposed]
    bar = uniform[1] * now
    found: list[tuple[int, float]] = []
    for i, position in enumerate(proposed):
        if bar[i] < now[i]:
            found.append((int(position), float(now[i])))
            now = np.minimum(now, table[i])
            now[proposed == position] = 0.0
    return found
