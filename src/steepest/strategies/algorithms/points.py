"""Points whose distances decide who is chosen: as in ``distances``, but in float64.

The formula loses digits where points are much closer to each other than to the origin; float64
has them to spare. Points are converted tile by tile, and no matrix of all pairs is ever made.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from steepest.errors import InputError
from steepest.strategies.algorithms.distances import relative_squares, tiles

KEPT_BYTES = 256 * 2**20
"""Up to this size points are kept in float64; larger sets are converted tile by tile."""

TILE_BYTES = 32 * 2**20
"""Bytes for the temporaries of one tile."""

NOISE = 64 * torch.finfo(torch.float64).eps
"""Squared distances below this share of the squared norm are rounding: the points are equal."""

_CENTRES = 1024


class Points:
    """N points, given by coordinates or as outer products of two vectors each.

    With two factors the point is x = a ⊗ z, which is never made: ⟨x, y⟩ = ⟨a, b⟩ ⟨z, w⟩ for
    y = b ⊗ w.

    Args:
        factors: One matrix [N, D], or two [N, C] and [N, D], of any floating type.
        origin: The origin of the coordinates of a single factor [D]. Distances do not
            depend on it, but the digits that they keep do.
    """

    def __init__(self, *factors: Tensor, origin: Tensor | None = None) -> None:
        if any(f.ndim != 2 or len(f) != len(factors[0]) for f in factors):
            shapes = [list(f.shape) for f in factors]
            raise InputError(f"points must be matrices with a row for each; found {shapes}")
        self._origin = None if origin is None else origin.double()
        self._factors = factors
        self._squares: Tensor | None = None
        if sum(f.numel() for f in factors) * 8 <= KEPT_BYTES:
            self._factors, self._origin = self._converted(slice(None)), None

    def __len__(self) -> int:
        return len(self._factors[0])

    @property
    def device(self) -> torch.device:
        """Device of the points."""
        return self._factors[0].device

    @property
    def squares(self) -> Tensor:
        """Squared norms [N] in float64."""
        if self._squares is None:
            parts = [
                torch.stack([f.square().sum(1) for f in self._converted(rows)]).prod(0)
                for rows in _tiles(len(self), sum(f.shape[1] for f in self._factors))
            ]
            self._squares = torch.cat(parts)
        return self._squares

    def take(self, rows: slice | Tensor) -> Points:
        """Return some of the points."""
        part = Points(*self._converted(rows))
        part._squares = self.squares[rows]
        return part

    def squared_distances(self) -> Tensor:
        """Return those between all pairs [N, N]: for few points."""
        squares = self.squares[:, None]
        found = _relative_squares(self, self) + squares
        return torch.where(found <= NOISE * (squares + squares.T), 0.0, found)

    def nearest_squares(self, centres: Points) -> Tensor:
        """Return the squared distance of each to the nearest centre [N].

        Args:
            centres: At least one, in as many factors and from the same origin.
        """
        columns = min(len(centres), _CENTRES)
        wide = sum(f.shape[1] for f in self._factors) + len(self._factors) * columns
        parts = []
        for rows in _tiles(len(self), wide):
            own = self.take(rows)
            # No list of minima: small tensors that outlive large ones would pin the freed memory.
            lowest = torch.full_like(own.squares, torch.inf)
            for part in tiles(len(centres), 1, columns):
                torch.minimum(
                    lowest, _relative_squares(own, centres.take(part)).amin(1), out=lowest
                )
            found = lowest + own.squares
            parts.append(torch.where(found <= NOISE * 2 * own.squares, 0.0, found))
        return torch.cat(parts)

    @property
    def factors(self) -> tuple[Tensor, ...]:
        """The matrices that they are given by."""
        return self._factors

    def _converted(self, rows: slice | Tensor) -> tuple[Tensor, ...]:
        found = tuple(f[rows].double() for f in self._factors)
        return found if self._origin is None else (found[0] - self._origin,)


def nearest_to_mean(values: Tensor) -> int:
    """Return the position of the point nearest the mean of all [N, D]."""
    tiles = list(_tiles(*values.shape))
    mean = torch.stack([values[rows].double().sum(0) for rows in tiles]).sum(0) / len(values)
    squares = [(values[rows].double() - mean).square().sum(1) for rows in tiles]
    return int(torch.cat(squares).argmin())


def _relative_squares(points: Points, others: Points) -> Tensor:
    """Return squared distances to M others, less the points' own squared norms [N, M]."""
    if len(points.factors) == 1:
        return relative_squares(points.factors[0], others.factors[0], others.squares)
    (a, z), (b, w) = points.factors, others.factors
    return (a @ b.T).mul_(z @ w.T).mul_(-2).add_(others.squares)


def _tiles(rows: int, wide: int) -> Iterator[slice]:
    return tiles(rows, 8 * wide, TILE_BYTES)
