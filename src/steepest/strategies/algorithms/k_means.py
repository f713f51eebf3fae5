"""Seeded k-means: clusters of rows around their means."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from steepest.core.progress import Progress, SilentProgress, Step
from steepest.core.seeds import generator
from steepest.strategies.algorithms.distances import nearest, squared_distances, tiles

Start = Literal["spread", "random"]
"""First centres: far from each other (k-means++), or rows at random."""

FULL_BATCH_ROWS = 100_000
"""Above this, centres are learnt from mini-batches."""

_BATCH_ROWS = 5_000
_BATCHES = 200
_ITERATIONS = 50
_LAST_ITERATIONS = 2

_ROWS_PER_MICRO_CLUSTER = 20
_MICRO_ROUNDS = 4


@dataclass(frozen=True, eq=False)
class Clusters:
    """Result of k-means.

    Attributes:
        centres: [K, D].
        labels: The nearest centre of each row [N].
    """

    centres: Tensor
    labels: Tensor


def k_means(
    rows: Tensor,
    count: int,
    seed: int,
    *,
    start: Start = "spread",
    iterations: int = _ITERATIONS,
    full_batch_rows: int = FULL_BATCH_ROWS,
    progress: Progress | None = None,
) -> Clusters:
    """Cluster rows around so many means.

    Deterministic for a seed and an order of the rows. A cluster that loses all its rows begins
    anew at the row that is farthest from its mean, so that one stays empty only if there are
    fewer distinct rows than clusters. Memory beside the rows: O(K·D) and tiles.

    Args:
        rows: [N, D], finite.
        count: How many clusters; N if that is less.
        seed: Decides the first centres and the mini-batches.
        start: How the first centres are drawn; ``"random"`` is quicker for thousands of them.
        iterations: The most rounds over all rows.
        full_batch_rows: If there are more rows, centres are learnt from mini-batches first, and
            two rounds over all rows follow.
        progress: Told of each round.
    """
    if count >= len(rows):
        return Clusters(rows.clone(), torch.arange(len(rows), device=rows.device))
    random = generator(seed, "k-means")
    draw = _spread if start == "spread" else _scattered
    in_batches = len(rows) > full_batch_rows
    rounds = min(iterations, _LAST_ITERATIONS) if in_batches else iterations
    total = rounds + (_BATCHES if in_batches else 0)
    with (progress or SilentProgress()).task("clustering", total) as step:
        centres = draw(rows, count, random)
        if in_batches:
            centres = _learn_from_batches(rows, centres, random, step)
        return _learn(rows, centres, rounds, step)


def micro_clusters(
    rows: Tensor, count: int, seed: int, *, progress: Progress | None = None
) -> Clusters:
    """Gather rows into thousands of small clusters, as a first step to larger ones.

    Such clusters need not be the best of their number: centres are learnt in a few rounds over
    some rows for each, and all rows are read once.

    Args:
        rows: [N, D], finite.
        count: How many clusters; N if that is less.
        seed: Decides the first centres and the rows to learn from.
        progress: Told of each round.
    """
    some = _ROWS_PER_MICRO_CLUSTER * count
    if len(rows) <= some:
        return k_means(
            rows, count, seed, start="random", iterations=_MICRO_ROUNDS,
            full_batch_rows=len(rows), progress=progress,
        )  # fmt: skip
    drawn = _scattered(rows, some, generator(seed, "micro-clusters"))
    centres = k_means(
        drawn, count, seed, start="random", iterations=_MICRO_ROUNDS,
        full_batch_rows=some, progress=progress,
    ).centres  # fmt: skip
    return Clusters(centres, nearest(rows, centres)[1])


def _scattered(rows: Tensor, count: int, random: torch.Generator) -> Tensor:
    return rows[torch.randperm(len(rows), generator=random)[:count].to(rows.device)]


def _spread(rows: Tensor, count: int, random: torch.Generator) -> Tensor:
    """Draw each centre with a chance that grows with the squared distance to those before."""
    # So many rows per centre show where the mass is, at a cost that does not grow with all rows.
    rows = _scattered(rows, min(len(rows), 16 * count + 1024), random)
    free = torch.ones(len(rows), dtype=torch.float64)
    squared = torch.full_like(free, torch.inf)
    chosen: list[int] = []
    for _ in range(count):
        mass = squared * free if chosen else free
        # Fewer distinct rows than centres: any row will do.
        mass = mass if bool(mass.sum() > 0) else free
        # Summed on the CPU, where the order of a cumulative sum is fixed.
        sums = mass.cumsum(0)
        point = torch.rand(1, generator=random, dtype=torch.float64) * sums[-1]
        at = int(torch.searchsorted(sums, point, right=True).clamp_max(len(rows) - 1))
        at = at if mass[at] > 0 else int(mass.nonzero()[-1])
        chosen.append(at)
        free[at] = 0
        fresh = squared_distances(rows, rows[at : at + 1])[:, 0]
        squared = torch.minimum(squared, fresh.double().cpu())
    return rows[torch.tensor(chosen, device=rows.device)]


def _learn(rows: Tensor, centres: Tensor, iterations: int, step: Step) -> Clusters:
    labels: Tensor | None = None
    for _ in range(iterations):
        squared, found = nearest(rows, centres)
        if labels is not None and torch.equal(found, labels):
            return Clusters(centres, labels)
        labels = found
        sums, counts = _totals(rows, labels, len(centres))
        means = sums / counts.clamp_min(1)[:, None]
        centres = torch.where(counts[:, None] > 0, means, centres)
        centres = _begin_anew(rows, centres, counts, squared)
        step.advance()
    return Clusters(centres, nearest(rows, centres)[1])


def _learn_from_batches(
    rows: Tensor, centres: Tensor, random: torch.Generator, step: Step
) -> Tensor:
    """Move centres to the running means of the rows that were drawn near them."""
    seen = torch.zeros(len(centres), dtype=rows.dtype, device=rows.device)
    for _ in range(_BATCHES):
        drawn = torch.randint(len(rows), (_BATCH_ROWS,), generator=random)
        batch = rows[drawn.to(rows.device)]
        sums, counts = _totals(batch, nearest(batch, centres)[1], len(centres))
        seen += counts
        pull = sums - counts[:, None] * centres
        centres = centres + pull / seen.clamp_min(1)[:, None]
        step.advance()
    return centres


def _totals(rows: Tensor, labels: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return the sum of each cluster's rows [K, D] and their number [K]."""
    sums = rows.new_zeros((count, rows.shape[1]))
    counts = torch.bincount(labels, minlength=count).to(rows.dtype)
    if rows.device.type == "cpu":
        return sums.index_add_(0, labels, rows), counts
    # Elsewhere index_add_ adds in any order; a product with one-hot rows does not.
    every = torch.arange(count, device=rows.device)
    for part in tiles(len(rows), count * rows.element_size()):
        sums += (labels[part, None] == every).to(rows.dtype).T @ rows[part]
    return sums, counts


def _begin_anew(rows: Tensor, centres: Tensor, counts: Tensor, squared: Tensor) -> Tensor:
    empty = (counts == 0).nonzero()[:, 0]
    if len(empty) == 0:
        return centres
    far, where = squared.topk(len(empty))
    moved = centres.clone()
    moved[empty[far > 0]] = rows[where[far > 0]]
    return moved
