"""Tables whose rows are looked up."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from steepest.gradnorm.lookups import Bags, Lookup
from steepest.gradnorm.rules.base import Call, all_but_last, rule
from steepest.gradnorm.shares import Share


@rule(
    F.embedding,
    arguments="input weight padding_idx max_norm norm_type scale_grad_by_freq sparse",
    rows=all_but_last("input"),
)
def embedding(call: Call, g: Tensor) -> dict[str, Share]:
    """Embedding: rows used twice by a sample add up before they are squared."""
    if call.get("max_norm") is not None or call.get("scale_grad_by_freq", False):
        raise NotImplementedError
    weight: Tensor = call["weight"]
    ids = call.samples_first(call["input"]).flatten(1)
    rows = call.samples_first(g).reshape(len(ids), -1, weight.shape[1])
    return {"weight": Lookup(ids.long(), rows, weight.shape, skipped=_padding_row(call))}


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
    ids = ids.long()
    given = call.get("per_sample_weights")
    weights = torch.ones_like(ids, dtype=g.dtype) if given is None else given.to(g.dtype)
    padding = _padding_row(call)
    if padding is not None:
        weights = weights * (ids != padding)
    if mode == "mean":
        weights = weights / weights.sum(1, keepdim=True).clamp_min(1)
    ids, weights, g = (call.samples_first(tensor) for tensor in (ids, weights, g))
    return {"weight": Bags(ids, weights, g, call["weight"].shape)}


@rule(torch.Tensor.__getitem__, arguments="input index", rows=all_but_last("index"))
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


def _padding_row(call: Call) -> int | None:
    padding = call.get("padding_idx")
    return None if padding is None else int(padding) % len(call["weight"])
