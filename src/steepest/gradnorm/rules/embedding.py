"""Tables whose rows are looked up."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from steepest.gradnorm.measure.lookups import Lookup
from steepest.gradnorm.measure.shares import Share
from steepest.gradnorm.rules.base import Call, rule


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
