"""Coverage of the rows by the picks so far, and the gain of further picks."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from steepest.core.progress import Progress, SilentProgress, Step
from steepest.strategies.algorithms.distances import (
    relative_squares,
    squared_distances,
    squared_lengths,
    squared_tiles,
    tiles,
    tiles_of_pairs,
)

CACHE_BYTES = 2**26
"""Bytes for the cached kernels of candidates."""

LISTED_PAIRS = 2**25
"""Pairs of rows that are listed at most, at 8 bytes in single precision."""

BLOCK = 32
"""Number of candidates evaluated together."""

_SAMPLE = (256, 4096)
_SHOWN_ABOVE = 10_000


class Coverage:
    """Coverage of each witness, and the gain of each candidate."""

    def __init__(self, rows: Tensor, weights: Tensor, width: float, witnesses: int | None) -> None:
        count = len(rows) if witnesses is None else min(witnesses, len(rows))
        self.rows, self.width = rows, width
        self.lengths = squared_lengths(rows)
        self.seen, self.seen_lengths = rows[:count], self.lengths[:count]
        self.weights = weights[:count].to(rows)
        self.covered = torch.zeros_like(self.seen_lengths)
        # Kernels round as distances do over 2σ²: gains nearer to each other than that are equal.
        self.equal = min(1e-3, 64 * torch.finfo(rows.dtype).eps * max(1.0, 1 / width))
        self.nothing = self.equal * float(self.weights.max())
        slots = max(4 * BLOCK, CACHE_BYTES // max(1, count * rows.element_size()))
        self._kernels = rows.new_empty((min(slots, len(rows) + BLOCK), count))
        self._slot_of = np.full(len(rows), -1, dtype=np.intp)
        self._held = np.full(len(self._kernels), -1, dtype=np.intp)
        self._next = 0
        some, others = _SAMPLE
        self._sample = squared_distances(self.seen[:some], rows[:others])

    def cover(self, centres: Tensor) -> None:
        """Add the coverage of these [M, D]."""
        for part, _, table in squared_tiles(self.seen, centres.to(self.rows), self.seen_lengths):
            best = self.kernel(table).amax(1)
            self.covered[part] = torch.maximum(self.covered[part], best)

    def reach(self, part: slice = slice(None)) -> Tensor:
        """Return the squared distances [W] from which on witnesses are covered better already."""
        return self.covered[part].log().mul_(-2 * self.width)

    def fits_in_lists(self) -> bool:
        """Say whether so few pairs still count that they can be listed, judged by a sample."""
        inside = self._sample < self.reach(slice(len(self._sample)))[:, None]
        pairs = len(self.seen) * len(self.rows)
        return float(inside.double().mean()) * pairs <= LISTED_PAIRS

    def all_gains(self, progress: Progress) -> npt.NDArray[np.float64]:
        """Return the gains of all candidates [N]."""
        total = torch.zeros(len(self.rows), dtype=torch.float64, device=self.rows.device)
        shown = progress if len(self.rows) > _SHOWN_ABOVE else SilentProgress()
        with shown.task("measuring coverage", len(self.rows)) as step:
            if len(self.seen) == len(self.rows):
                self._add_pairs(total, step)
            else:
                for part, columns, table in squared_tiles(self.rows, self.seen, self.lengths):
                    total[part] += self._worth(self.kernel(table), columns)
                    if columns.stop == len(self.seen):
                        step.advance(part.stop - part.start)
        return total.cpu().numpy()

    def _add_pairs(self, total: Tensor, step: Step) -> None:
        for part, columns, table in tiles_of_pairs(self.rows, self.lengths):
            kernel = self.kernel(table)
            if columns != part:
                beyond = (kernel - self.covered[part, None]).clamp_min_(0)
                total[columns] += self.weights[part] @ beyond
            total[part] += self._worth(kernel, columns)
            if columns.stop == len(self.rows):
                step.advance(part.stop - part.start)

    def gains(self, positions: npt.NDArray[np.intp]) -> npt.NDArray[np.float64]:
        """Return the gains of a block of candidates [B]."""
        # Taken by index, so a copy that may be written over.
        return self._worth(self.kernels_of(positions), slice(None)).cpu().numpy()

    def take(self, position: int) -> None:
        """Add the coverage of a candidate."""
        (kernel,) = self.kernels_of(np.asarray([position]))
        torch.maximum(self.covered, kernel, out=self.covered)

    def _worth(self, kernel: Tensor, columns: slice) -> Tensor:
        """Return the weight that kernels [B, W] cover newly [B]; they are written over."""
        beyond = kernel.sub_(self.covered[columns]).clamp_min_(0)
        return (beyond @ self.weights[columns]).double()

    def kernel(self, squares: Tensor) -> Tensor:
        """Turn squared distances into kernels, in their place."""
        # Below rounding two rows are one: copies must not cover a little more of each other.
        squares.masked_fill_(squares <= rounding_square(squares), 0)
        return squares.mul_(-0.5 / self.width).exp_()

    def kernels_of(self, positions: npt.NDArray[np.intp]) -> Tensor:
        """Return the kernels of some candidates [B, W], computing those that are not kept."""
        missing = positions[self._slot_of[positions] < 0]
        if len(missing):
            self._compute(missing, positions)
        return self._kernels[torch.from_numpy(self._slot_of[positions]).to(self.rows.device)]

    def is_kept(self, position: int) -> bool:
        """Say whether the kernels of a candidate are at hand."""
        return bool(self._slot_of[position] >= 0)

    def _compute(self, missing: npt.NDArray[np.intp], wanted: npt.NDArray[np.intp]) -> None:
        slots = self._free_slots(len(missing), wanted)
        at = torch.from_numpy(missing).to(self.rows.device)
        squares = relative_squares(self.rows[at], self.seen, self.seen_lengths)
        squares.add_(self.lengths[at, None]).clamp_min_(0)
        self._kernels[torch.from_numpy(slots).to(self.rows.device)] = self.kernel(squares)
        gone = self._held[slots]
        self._slot_of[gone[gone >= 0]] = -1
        self._held[slots] = missing
        self._slot_of[missing] = slots

    def _free_slots(self, count: int, wanted: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
        """Return slots to write to, the oldest first, but none that is wanted now."""
        kept = set(self._slot_of[wanted].tolist())
        found: list[int] = []
        while len(found) < count:
            if self._next not in kept:
                found.append(self._next)
            self._next = (self._next + 1) % len(self._held)
        return np.asarray(found, dtype=np.intp)


class ListedPairs:
    """For each witness the candidates that would cover it better, and the gains of all.

    The list of witness x is ``[starts[x], starts[x + 1])`` of candidates and kernels.
    """

    def __init__(self, space: Coverage) -> None:
        self._space = space
        device = space.rows.device
        candidates, kernels, sizes = [], [], []
        for part in tiles(len(space.seen), len(space.rows) * space.rows.element_size(), 2**24):
            found = self._list(part)
            candidates.append(found[1])
            kernels.append(found[2])
            sizes.append(torch.bincount(found[0], minlength=part.stop - part.start))
        self._candidates = torch.cat(candidates)
        self._kernels = torch.cat(kernels)
        self._starts = torch.zeros(len(space.seen) + 1, dtype=torch.long, device=device)
        self._starts[1:] = torch.cat(sizes).cumsum(0)
        self._gains = torch.zeros(len(space.rows), dtype=torch.float64, device=device)
        self._taken = torch.zeros(len(space.rows), dtype=torch.bool, device=device)
        self._work = 0
        self._sum_gains()

    def best(self) -> tuple[int, float]:
        """Return the candidate of the highest gain, and its gain."""
        highest = float(self._gains.max())
        near = self._gains >= highest * (1 - self._space.equal)
        at = int(near.nonzero()[0]) if highest > 0 else 0
        return at, float(self._gains[at])

    def take(self, position: int) -> None:
        """Take a candidate and bring the gains of all others up to date."""
        space = self._space
        if not space.is_kept(position):
            # Those that are likely to be next are computed by the same product.
            some = min(BLOCK, len(self._gains))
            soon = self._gains.topk(some).indices.cpu().numpy().astype(np.intp)
            space.kernels_of(np.union1d(soon, [position]))
        (kernel,) = space.kernels_of(np.asarray([position]))
        changed = (kernel > space.covered).nonzero()[:, 0]
        before, now = space.covered[changed], kernel[changed]
        starts = self._starts[changed]
        sizes = self._starts[changed + 1] - starts
        which = torch.repeat_interleave(sizes)
        ends = sizes.cumsum(0)
        at = torch.arange(len(which), device=starts.device) + (starts - ends + sizes)[which]
        values = self._kernels[at]
        lost = (values - before[which]).clamp_min_(0) - (values - now[which]).clamp_min_(0)
        lost *= space.weights[changed][which]
        self._gains.index_add_(0, self._candidates[at], -lost.double())
        space.covered[changed] = now
        self._taken[position] = True
        self._gains[position] = -math.inf
        self._work += len(at)
        if self._work > len(self._candidates):
            self._compact()

    def _list(self, part: slice) -> tuple[Tensor, Tensor, Tensor]:
        """Return the pairs of some witnesses: witness, candidate and kernel, by witness."""
        space = self._space
        reach = space.reach(part)[:, None]
        found: list[tuple[Tensor, Tensor, Tensor]] = []
        for rows, columns, table in squared_tiles(
            space.seen[part], space.rows, space.seen_lengths[part]
        ):
            inside = (table < reach[rows]).nonzero()
            kernels = space.kernel(table[inside[:, 0], inside[:, 1]])
            found.append((inside[:, 0] + rows.start, inside[:, 1] + columns.start, kernels))
        witnesses, candidates, kernels = map(torch.cat, zip(*found, strict=True))
        order = witnesses.short().sort(stable=True).indices if len(found) > 1 else slice(None)
        return witnesses[order], candidates[order].int(), kernels[order]

    def _compact(self) -> None:
        """Drop the pairs that count no more."""
        sizes = self._starts.diff()
        live = self._kernels > torch.repeat_interleave(self._space.covered, sizes)
        kept = torch.zeros(len(live) + 1, dtype=torch.long, device=live.device)
        torch.cumsum(live, 0, out=kept[1:])
        self._candidates, self._kernels = self._candidates[live], self._kernels[live]
        self._starts = kept[self._starts]
        self._work = 0
        self._sum_gains()

    def _sum_gains(self) -> None:
        space = self._space
        sizes = self._starts.diff()
        worth = self._kernels - torch.repeat_interleave(space.covered, sizes)
        worth = worth.clamp_min_(0) * torch.repeat_interleave(space.weights, sizes)
        self._gains.zero_()
        self._gains.index_add_(0, self._candidates, worth.double())
        self._gains[self._taken] = -math.inf


def rounding_square(squares: Tensor) -> float:
    """Return the rounding error of a squared distance between equal rows of length 1."""
    return 16 * torch.finfo(squares.dtype).eps
