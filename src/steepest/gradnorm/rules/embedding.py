"""Tables whose rows are looked up."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from steepest.gradnorm.rules.base import Call, rule
from steepest.gradnorm.shares import Lookup, Share


@rule(
    F.embedding,
    arguments="input weight padding_idx max_norm norm_type scale_grad_by_freq sparse",
)
def embedding(call: Call, g: Tensor) -> dict[str, Share]:
    """Embedding: rows used twice by a sample add up before they are squared."""
    if call.get("max_norm") is not None or call.get("scale_grad_by_freq", False):
        raise NotImplementedError
    weight: Tensor = call["weight"]
    ids = call.samples_first(call["input"]).flatten(1)
    rows = call.samples_first(g).reshape(len(ids), -1, weight.shape[1])
    return {"weight": Lookup(ids, _kept(call, ids, rows), weight.shape)}


@rule(
    F.embedding_bag,
    arguments="input weight offsets max_norm norm_type scale_grad_by_freq mode sparse "
    "per_sample_weights include_last_offset padding_idx",
    samples="first",
)
def embedding_bag(call: Call, g: Tensor) -> dict[str, Share]:
    """Bag of embeddings [N, L]: the sum or mean of the rows looked up."""
    ids: Tensor = call["input"]
    mode = call.get("mode", "mean")
    unusual = call.get("max_norm") is not None or call.get("scale_grad_by_freq", False)
    if unusual or ids.ndim != 2 or mode == "max" or "per_sample_weights" in call.wanted:
        raise NotImplementedError
    weight: Tensor = call["weight"]
    rows = g[:, None].expand(-1, ids.shape[1], -1)
    if (weights := call.get("per_sample_weights")) is not None:
        rows = rows * weights[..., None].to(rows.dtype)
    rows = _kept(call, ids, rows)
    if mode == "mean":
        padding = _padding_row(call)
        counted = torch.ones_like(ids) if padding is None else (ids != padding).long()
        rows = rows / counted.sum(1).clamp_min(1)[:, None, None]
    ids = call.samples_first(ids).flatten(1)
    return {"weight": Lookup(ids, call.samples_first(rows).flatten(1, 2), weight.shape)}


@rule(torch.Tensor.__getitem__, arguments="input index")
def indexing(call: Call, g: Tensor) -> dict[str, Share]:
    """Rows of a table [R, D] looked up by a tensor of indices."""
    table, index = call["input"], call["index"]
    if not isinstance(index, Tensor) or index.is_floating_point() or table.ndim != 2:
        raise NotImplementedError
    if index.dtype in {torch.bool, torch.uint8}:
        raise NotImplementedError
    ids = call.samples_first(index).flatten(1).long() % len(table)
    rows = call.samples_first(g).reshape(len(ids), -1, table.shape[1])
    return {"input": Lookup(ids, rows, table.shape)}


def _kept(call: Call, ids: Tensor, rows: Tensor) -> Tensor:
    """Return the gradients [N, T, D] without those of the padding row."""
    padding = _padding_row(call)
    return rows if padding is None else rows * (ids != padding)[..., None]


def _padding_row(call: Call) -> int | None:
    padding = call.get("padding_idx")
    return None if padding is None else int(padding) % len(call["weight"])
