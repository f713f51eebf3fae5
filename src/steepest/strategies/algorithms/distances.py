"""Squared distances between many rows, in tiles that fit into little memory.

They are ‖x‖² + ‖c‖² − 2 x·c, in the rows' own type: that is for work over all pairs, where the
last digits do not count. Where they decide who is chosen, ``points`` has them in float64.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor

TILE_BYTES = 2**27
"""Largest table of distances, in bytes; at most two exist at a time."""

CACHED_BYTES = 2**20
"""Largest table on a CPU: beyond its cache the work takes several times as long."""


def tiles(rows: int, bytes_per_row: int, tile_bytes: int | None = None) -> Iterator[slice]:
    """Yield slices that cut rows into tiles of bounded size, ``TILE_BYTES`` by default."""
    size = max(1, (TILE_BYTES if tile_bytes is None else tile_bytes) // max(1, bytes_per_row))
    for start in range(0, rows, size):
        yield slice(start, min(start + size, rows))


def squared_lengths(rows: Tensor) -> Tensor:
    """Return ‖x‖² of each row [N]."""
    parts = [rows[part].square().sum(1) for part in tiles(len(rows), rows[:1].nbytes)]
    return torch.cat(parts) if parts else rows.new_zeros(0)


def squared_distances(rows: Tensor, centres: Tensor, lengths: Tensor | None = None) -> Tensor:
    """Return squared Euclidean distances by ‖x‖² + ‖c‖² − 2 x·c, at least 0.

    Args:
        rows: [N, D].
        centres: [K, D].
        lengths: Of the rows, squared [N], if they are known already.

    Returns:
        [N, K].
    """
    lengths = squared_lengths(rows) if lengths is None else lengths
    found = relative_squares(rows, centres, centres.square().sum(1))
    return found.add_(lengths[:, None]).clamp_min_(0)


def relative_squares(
    rows: Tensor, centres: Tensor, lengths: Tensor, out: Tensor | None = None
) -> Tensor:
    """Return squared distances less the rows' own squared lengths [N, K], by one product.

    Args:
        rows: [N, D].
        centres: [K, D].
        lengths: Of the centres, squared [K].
        out: Where they are written, if that is there already [N, K].
    """
    return torch.addmm(lengths, rows, centres.T, alpha=-2, out=out)


def squared_tiles(
    rows: Tensor, centres: Tensor, lengths: Tensor | None = None
) -> Iterator[tuple[slice, slice, Tensor]]:
    """Yield all squared distances [N, K] tile by tile, with their rows and columns.

    Each tile is written over the one before: what is wanted of it has to be taken at once.
    """
    lengths = squared_lengths(rows) if lengths is None else lengths
    across = squared_lengths(centres)
    wide = max(_side(rows), _side(rows) ** 2 // max(1, len(rows)))
    space = _Space(rows)
    for part in tiles(len(rows), min(wide, len(centres)) * rows.element_size(), _most(rows)):
        for columns in tiles(len(centres), 1, wide):
            table = space.table(part, columns)
            relative_squares(rows[part], centres[columns], across[columns], out=table)
            yield part, columns, table.add_(lengths[part, None]).clamp_min_(0)


def tiles_of_pairs(rows: Tensor, lengths: Tensor) -> Iterator[tuple[slice, slice, Tensor]]:
    """Yield squared distances between rows as ``squared_tiles`` does, each pair but once.

    Columns never begin before the rows: a tile whose columns are its rows has both halves.
    """
    space, side = _Space(rows), _side(rows)
    for part in tiles(len(rows), 1, side):
        for later in tiles(len(rows) - part.start, 1, side):
            columns = slice(later.start + part.start, later.stop + part.start)
            table = space.table(part, columns)
            relative_squares(rows[part], rows[columns], lengths[columns], out=table)
            yield part, columns, table.add_(lengths[part, None]).clamp_min_(0)


class _Space:
    """Memory that one tile after another is written to."""

    def __init__(self, rows: Tensor) -> None:
        self._rows = rows
        self._kept = rows.new_empty(0)

    def table(self, part: slice, columns: slice) -> Tensor:
        shape = (part.stop - part.start, columns.stop - columns.start)
        if len(self._kept) < shape[0] * shape[1]:
            self._kept = self._rows.new_empty(shape[0] * shape[1])
        return self._kept[: shape[0] * shape[1]].view(shape)


def _most(rows: Tensor) -> int:
    """Return how many bytes a tile may have where the rows are."""
    return min(TILE_BYTES, CACHED_BYTES) if rows.device.type == "cpu" else TILE_BYTES


def _side(rows: Tensor) -> int:
    """Return the side of the largest square tile."""
    return max(1, math.isqrt(_most(rows) // rows.element_size()))


def nearest(rows: Tensor, centres: Tensor) -> tuple[Tensor, Tensor]:
    """Return the squared distance of each row to its nearest centre, and which that is.

    Args:
        rows: [N, D].
        centres: [K, D], at least one; of equally near ones the first is taken.

    Returns:
        Squared distances [N] and positions [N].
    """
    squared = rows.new_full((len(rows),), torch.inf)
    which = torch.zeros(len(rows), dtype=torch.long, device=rows.device)
    for part, columns, table in squared_tiles(rows, centres):
        lowest, at = table.min(1)
        closer = lowest < squared[part]
        which[part] = torch.where(closer, at + columns.start, which[part])
        squared[part] = torch.minimum(lowest, squared[part])
    return squared, which
