"""Squared distances between many rows, in tiles that fit into little memory.

They are ‖x‖² + ‖c‖² − 2 x·c, in the rows' own type: that is for work over all pairs, where the
last digits do not count. Where they decide who is chosen, ``points`` has them in float64.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

TILE_BYTES = 2**27
"""How large a table of distances may be; there are at most two at a time."""

_COLUMNS = 8192


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


def relative_squares(rows: Tensor, centres: Tensor, lengths: Tensor) -> Tensor:
    """Return squared distances less the rows' own squared lengths [N, K], by one product.

    Args:
        rows: [N, D].
        centres: [K, D].
        lengths: Of the centres, squared [K].
    """
    return torch.addmm(lengths, rows, centres.T, alpha=-2)


def squared_tiles(
    rows: Tensor, centres: Tensor, lengths: Tensor | None = None
) -> Iterator[tuple[slice, slice, Tensor]]:
    """Yield all squared distances [N, K] tile by tile, with their rows and columns."""
    lengths = squared_lengths(rows) if lengths is None else lengths
    across = min(_COLUMNS, len(centres))
    for part in tiles(len(rows), across * rows.element_size()):
        for start in range(0, len(centres), _COLUMNS):
            columns = slice(start, min(start + _COLUMNS, len(centres)))
            yield part, columns, squared_distances(rows[part], centres[columns], lengths[part])


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
