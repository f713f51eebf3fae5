"""Gradients of tables of which each sample uses some rows."""

from __future__ import annotations

import torch
from torch import Tensor

from steepest.gradnorm.measure.routes import Routes, chunks
from steepest.gradnorm.measure.shares import Share, sum_of_squares

_PART = 8
"""Rows are copied with this part of the scratch space: more at once would not be quicker."""


class Lookup(Share):
    """Gradients of a table of which each sample uses some rows.

    Args:
        ids: The rows [N, T].
        gradients: What each use adds to its row [N, T, D].
        shape: [rows, D].
        skipped: A row that gets no gradient.
    """

    def __init__(
        self, ids: Tensor, gradients: Tensor, shape: torch.Size, *, skipped: int | None = None
    ) -> None:
        self.samples, self.shape = len(ids), shape
        self._ids, self._gradients, self._skipped = ids, gradients, skipped

    def squares(self, routes: Routes) -> Tensor:
        """Return squared norms [N]: uses of the same row are added up before they are squared."""
        routes.note("closed form")
        floats = _PART * self._gradients.shape[1:].numel()
        return torch.cat([self._squares_of(rows) for rows in chunks(self.samples, floats)])

    def dense(self, rows: slice) -> Tensor:
        """Build gradients [n, rows, D]."""
        count = len(range(*rows.indices(self.samples)))
        return self.add_to(self._gradients.new_zeros(count, *self.shape), rows)

    def add_to(self, total: Tensor, rows: slice) -> Tensor:
        """Return a sum of gradients [n, rows, D] with these added, in place where possible."""
        gradients = self._kept(rows)
        if total.dtype != gradients.dtype:
            return super().add_to(total, rows)
        return total.scatter_add_(1, self._ids[rows, :, None].expand_as(gradients), gradients)

    def _squares_of(self, rows: slice) -> Tensor:
        gradients = self._kept(rows)
        ids, order = self._ids[rows].sort(dim=1)
        # Equal ids are neighbours now: number the runs, and add up each run in its own row.
        starts = torch.ones_like(ids)
        starts[:, 1:] = (ids[:, 1:] != ids[:, :-1]).long()
        runs = torch.empty_like(order).scatter_(1, order, starts.cumsum(1) - 1)
        summed = gradients.new_zeros(gradients.shape)
        summed.scatter_add_(1, runs[..., None].expand_as(gradients), gradients)
        return sum_of_squares(summed)

    def _kept(self, rows: slice) -> Tensor:
        """Return the gradients [n, T, D] without those of the row that gets none."""
        gradients = self._gradients[rows]
        if self._skipped is None:
            return gradients
        # No product: half precision may have overflown there, where nobody looks.
        return gradients.masked_fill((self._ids[rows] == self._skipped)[..., None], 0)
