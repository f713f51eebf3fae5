"""Tables whose rows are looked up."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from steepest.gradnorm.measure.routes import Routes, chunks
from steepest.gradnorm.measure.shares import Share, sum_of_squares
from steepest.gradnorm.rules.base import Call, rule

_PART = 8
"""Rows are copied with this part of the scratch space: more at once would not be quicker."""


class Lookup(Share):
    """Gradients of a table of which each sample uses some rows.

    Args:
        ids: Which rows [N, T].
        gradients: The gradient that each use adds to its row [N, T, D].
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
        # Equal ids are neighbours now: number the runs, and add up each run in a row of its own.
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


@rule(
    F.embedding,
    arguments="input weight padding_idx max_norm norm_type scale_grad_by_freq sparse",
    fold=lambda _, data: data.ndim,
)
def embedding(call: Call, g: Tensor) -> dict[str, Share]:
    """Embedding: rows used twice by a sample add up before they are squared."""
    if call.get("max_norm") is not None or call.get("scale_grad_by_freq", False):
        raise NotImplementedError
    weight: Tensor = call["weight"]
    padding = call.get("padding_idx")
    skipped = None if padding is None else int(padding) % len(weight)
    return {"weight": _lookup(call.data("input"), g, weight, skipped)}


def _bags(_: object, ids: Tensor) -> int:
    return ids.ndim - 1  # A list of lists of its own is another case, with offsets.


@rule(
    F.embedding_bag,
    arguments="input weight offsets max_norm norm_type scale_grad_by_freq mode sparse "
    "per_sample_weights include_last_offset padding_idx",
    fold=_bags,
)
def embedding_bag(call: Call, g: Tensor) -> dict[str, Share]:
    """Bags of embeddings [N, B, L]: the sum or mean of the rows looked up."""
    ids, mode = call.data("input").long(), call.get("mode", "mean")
    unusual = call.get("max_norm") is not None or call.get("scale_grad_by_freq", False)
    weighted = call.get("per_sample_weights") is not None
    if unusual or weighted or ids.ndim != 3 or mode == "max":
        raise NotImplementedError
    weight: Tensor = call["weight"]
    padding = call.get("padding_idx")
    counts = torch.ones_like(ids, dtype=g.dtype)
    if padding is not None:
        counts = counts * (ids != int(padding) % len(weight))
    if mode == "mean":
        counts = counts / counts.sum(2, keepdim=True).clamp_min(1)
    spread = counts[..., None] * g[:, :, None]
    return {"weight": _lookup(ids, spread, weight, None)}


@rule(torch.Tensor.__getitem__, arguments="input index")
def indexing(call: Call, g: Tensor) -> dict[str, Share]:
    """Rows of a table [R, D] looked up by a tensor of indices."""
    table, index = call["input"], call["index"]
    if not isinstance(index, Tensor) or index.is_floating_point() or table.ndim != 2:
        raise NotImplementedError
    if index.dtype in {torch.bool, torch.uint8}:
        raise NotImplementedError
    return {"input": _lookup(call.data("index") % len(table), g, table, None)}


def _lookup(ids: Tensor, g: Tensor, table: Tensor, skipped: int | None) -> Share:
    rows = g.reshape(len(ids), -1, table.shape[1])
    return Lookup(ids.reshape(len(ids), -1).long(), rows, table.shape, skipped=skipped)
