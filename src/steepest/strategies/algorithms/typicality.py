"""The most typical rows: those in the densest part."""

from __future__ import annotations

import torch
from torch import Tensor

from steepest.strategies.algorithms.distances import squared_distances, tiles

_SMALL = 1e-5
_AT_ONCE = 64


def most_typical(
    rows: Tensor, count: int, *, neighbours: int = 20, squared: bool = False
) -> tuple[list[int], list[float]]:
    """Take one row after another, each the most typical of those that are left.

    Typicality is 1 / (mean distance to the nearest rows + 1e-5), over min(neighbours, M/2) of
    the M rows that are left, and 0 for a row that is left alone. Of equals the first is taken.

    Args:
        rows: [N, D].
        count: How many, at most N.
        neighbours: How many nearest rows count at most.
        squared: Whether distances are squared.

    Returns:
        Positions and typicalities, in the order of taking.
    """
    left = torch.arange(len(rows), device=rows.device)
    taken: list[int] = []
    values: list[float] = []
    while len(taken) < count:
        some = min(count - len(taken), _AT_ONCE)
        at, found = _take(rows[left], some, neighbours, squared)
        taken += left[at].tolist()
        values += found
        stays = torch.ones(len(left), dtype=torch.bool, device=rows.device)
        stays[at] = False
        left = left[stays]
    return taken, values


def _take(rows: Tensor, count: int, neighbours: int, squared: bool) -> tuple[Tensor, list[float]]:
    # Whatever is taken, enough of these many nearest are left to the end.
    width = min(len(rows) - 1, min(neighbours, len(rows) // 2) + count)
    distances, index = _nearest_others(rows, width)
    distances = distances if squared else distances.sqrt()
    free = torch.ones(len(rows), dtype=torch.bool, device=rows.device)
    taken, values = [], []
    equal = torch.finfo(rows.dtype).eps ** 0.5
    for turn in range(count):
        left = len(rows) - turn
        wanted = min(max(1, min(neighbours, left // 2)), left - 1)
        typical = _typicality(distances, free[index], wanted)
        typical = typical.masked_fill(~free, -1)
        # Two rows that are nearest to each other are equals, whatever rounding says.
        at = int((typical >= typical.max() * (1 - equal)).nonzero()[0])
        taken.append(at)
        values.append(float(typical[at]))
        free[at] = False
    return torch.tensor(taken, device=rows.device), values


def _typicality(distances: Tensor, free: Tensor, wanted: int) -> Tensor:
    if wanted == 0:
        return distances.new_zeros(len(distances))
    among = free & (free.cumsum(1) <= wanted)
    return 1 / (torch.where(among, distances, 0).sum(1) / wanted + _SMALL)


def _nearest_others(rows: Tensor, width: int) -> tuple[Tensor, Tensor]:
    """Return squared distances to the nearest other rows [N, width], and which they are."""
    found: list[tuple[Tensor, Tensor]] = []
    # Wide tables are halved: beside the distances there are their sorted copies.
    for part in tiles(len(rows), 2 * len(rows) * rows.element_size()):
        table = squared_distances(rows[part], rows)
        table[torch.arange(len(table)), torch.arange(part.start, part.stop)] = torch.inf
        nearest = table.topk(width, dim=1, largest=False)
        found.append((nearest.values, nearest.indices))
    values, indices = zip(*found, strict=True)
    return torch.cat(values), torch.cat(indices)
