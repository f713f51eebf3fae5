"""Greedy cover: rows whose balls hold as many uncovered rows as possible."""

from __future__ import annotations

import torch
from torch import Tensor

from steepest.core.progress import Progress, SilentProgress
from steepest.core.seeds import generator
from steepest.strategies.algorithms.distances import (
    squared_distances,
    squared_lengths,
    squared_tiles,
    tiles_of_pairs,
)

_SHOWN_ABOVE = 10_000


def covered_by(rows: Tensor, centres: Tensor, radius: float) -> Tensor:
    """Say which rows are nearer than the radius to a centre [N].

    Args:
        rows: [N, D].
        centres: [K, D].
        radius: More than 0.
    """
    covered = torch.zeros(len(rows), dtype=torch.bool, device=rows.device)
    for part, _, table in squared_tiles(rows, centres):
        covered[part] |= (table < radius**2).any(1)
    return covered


def greedy_cover(
    rows: Tensor,
    radius: float,
    count: int,
    *,
    covered: Tensor | None = None,
    progress: Progress | None = None,
) -> tuple[list[int], list[int]]:
    """Take rows one by one, each with the most uncovered rows nearer than the radius.

    No graph is kept. Degrees are counted once, tile by tile, each pair of rows for both. A row
    that becomes covered counts no more: its own ball is computed again, once, and each row in it
    has one less. Memory beside the rows: O(N) and tiles; time: O(N²·D), whatever the radius.

    Args:
        rows: [N, D].
        radius: More than 0.
        count: How many at most; fewer are taken if all rows are covered before.
        covered: Rows that are covered from the beginning [N].
        progress: Told of each row that is taken.

    Returns:
        Positions in the order of taking, and how many rows each covered newly. Of equals the
        first is taken.
    """
    covered = rows.new_zeros(len(rows), dtype=torch.bool) if covered is None else covered.clone()
    balls = _Balls(rows, radius, progress or SilentProgress())
    degrees = balls.count_free(covered)
    positions: list[int] = []
    gains: list[int] = []
    with balls.progress.task("covering", count) as step:
        while len(positions) < count and not bool(covered.all()):
            at, fresh = _best(balls, degrees, covered)
            positions.append(at)
            gains.append(int(fresh.sum()))
            covered |= fresh
            degrees -= balls.count(rows[fresh])
            degrees[at] = -len(rows)
            step.advance()
    return positions, gains


def _best(balls: _Balls, degrees: Tensor, covered: Tensor) -> tuple[int, Tensor]:
    """Return the row of highest degree and the rows that it newly covers [N]."""
    # A row that is not covered would cover itself, though the distance to itself may be rounded.
    degrees[~covered] = degrees[~covered].clamp_min(1)
    while True:
        at = int(degrees.argmax())
        fresh = balls.around(at) & ~covered
        fresh[at] = ~covered[at]
        gain = fresh.sum()
        if gain == degrees[at]:
            return at, fresh
        # Distances at the very rim are rounded differently from tile to tile.
        degrees[at] = gain


class _Balls:
    """The balls of one radius around all rows, each computed on demand."""

    def __init__(self, rows: Tensor, radius: float, progress: Progress) -> None:
        self.progress = progress
        self._rows = rows
        self._squared = radius**2
        self._lengths = squared_lengths(rows)

    def around(self, at: int) -> Tensor:
        """Say which rows are in the ball around one [N]."""
        middle = self._rows[at : at + 1]
        return squared_distances(self._rows, middle, self._lengths)[:, 0] < self._squared

    def count(self, points: Tensor) -> Tensor:
        """Return how many of some points are in the ball around each row [N]."""
        rows = self._rows
        counts = torch.zeros(len(rows), dtype=torch.long, device=rows.device)
        for part, _, table in squared_tiles(rows, points, self._lengths):
            # As numbers in the table's place: truth values take longer to sum than to compute.
            counts[part] += table.lt_(self._squared).sum(1).long()
        return counts

    def count_free(self, covered: Tensor) -> Tensor:
        """Return how many uncovered rows are in the ball around each row [N]."""
        rows = self._rows
        counts = torch.zeros(len(rows), dtype=torch.long, device=rows.device)
        free = (~covered).to(rows.dtype)
        # Few rows are counted in no time.
        shown = self.progress if len(rows) > _SHOWN_ABOVE else SilentProgress()
        with shown.task("counting neighbours", len(rows)) as step:
            for part, columns, table in tiles_of_pairs(rows, self._lengths):
                inside = table.lt_(self._squared)
                counts[part] += (inside @ free[columns]).long()
                if columns != part:
                    counts[columns] += (free[part] @ inside).long()
                if columns.stop == len(rows):
                    step.advance(part.stop - part.start)
        return counts


def pure_radius(
    rows: Tensor, labels: Tensor, purity: float, seed: int, *, samples: int = 4096
) -> float:
    """Return the largest radius at which enough balls hold one label alone.

    The open ball around a row is pure as long as its radius is no more than the distance to the
    nearest row of another label, so the answer is a quantile of those distances.

    Args:
        rows: [N, D].
        labels: [N]; whole numbers.
        purity: Share of balls that have to be pure, more than 0 and at most 1.
        seed: Decides which rows the balls are drawn around.
        samples: How many these are at most; rows inside the balls are looked for among all.

    Returns:
        The radius, more than 0. If all labels are equal, no ball is ever impure: then the
        largest distance between a drawn row and any other.
    """
    drawn = torch.randperm(len(rows), generator=generator(seed, "purity"))[:samples]
    drawn = drawn.to(rows.device)
    others = rows.new_full((len(drawn),), torch.inf)
    farthest = rows.new_zeros(len(drawn))
    for part, columns, table in squared_tiles(rows[drawn], rows):
        farthest[part] = torch.maximum(farthest[part], table.amax(1))
        same = labels[drawn[part], None] == labels[None, columns]
        others[part] = torch.minimum(others[part], table.masked_fill_(same, torch.inf).amin(1))
    ordered = others.sort().values
    # Rounded first: (1 − 0.95) · 100 is a little more than 5.
    impure = int(round((1 - purity) * len(ordered), 9))
    squared = float(ordered[min(impure, len(ordered) - 1)])
    squared = squared if squared < torch.inf else float(farthest.max())
    return float(squared**0.5) if squared > 0 else 1.0
