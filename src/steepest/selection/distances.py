"""Squared distances between many rows, in tiles that fit into little memory."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

TILE_BYTES = 2**27
"""How large a table of distances may be; there are at most two at a time."""

_COLUMNS = 8192


def tiles(rows: int, bytes_per_row: int) -> Iterator[slice]:
    """Yield slices that cut rows into tiles of bounded size."""
    size = max(1, TILE_BYTES // max(1, bytes_per_row))
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
    found = torch.addmm(centres.square().sum(1)[None], rows, centres.T, alpha=-2)
    return found.add_(lengths[:, None]).clamp_min_(0)


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
