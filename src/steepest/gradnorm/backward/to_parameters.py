"""Backpropagates per-sample gradients through functions of parameters, such as weight norm."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from steepest.core.memory import is_out_of_memory
from steepest.gradnorm.watch.sources import Source


def pass_on(source: Source, gradients: Tensor) -> Iterable[tuple[Source, Tensor]]:
    """Send per-sample gradients of a source back to what it was made of.

    Args:
        source: Made of others by one function.
        gradients: [n, *shape]; not to be used afterwards, as they may be written over.

    Returns:
        What it was made of, with gradients [n, *shape] of the same samples.
    """
    if source.origin is None:
        return []
    at_once = _AT_ONCE.get(source.maker, _side_by_side)
    found = at_once(source, gradients)
    return _one_by_one(source, gradients) if found is None else found


def _side_by_side(source: Source, gradients: Tensor) -> list[tuple[Source, Tensor]] | None:
    """Take the backward pass of a function for all samples at once, if torch can do that."""
    if source.origin is None or len(gradients) == 1:
        return None
    inputs = [parent.tensor for parent in source.parents]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # It may be as slow as one by one.
            found: Sequence[Tensor | None] = torch.autograd.grad(
                source.origin, inputs, gradients.to(source.origin.dtype),
                retain_graph=True, allow_unused=True, is_grads_batched=True,
            )  # fmt: skip
    except (RuntimeError, ValueError, TypeError) as error:
        if is_out_of_memory(error):
            raise
        return None  # Something on the way asks for values, or works in place.
    pairs = [(p, g) for p, g in zip(source.parents, found, strict=True) if g is not None]
    if len(pairs) == 1 and pairs[0][1].is_contiguous():
        return pairs
    # Those of several parents may share memory, and be written over.
    return [(p, g.clone(memory_format=torch.contiguous_format)) for p, g in pairs]


def _one_by_one(source: Source, gradients: Tensor) -> Iterable[tuple[Source, Tensor]]:
    if source.origin is None:
        return
    inputs = [parent.tensor for parent in source.parents]
    rows = [
        torch.autograd.grad(
            source.origin, inputs, gradient.to(source.origin.dtype),
            retain_graph=True, allow_unused=True,
        )
        for gradient in gradients
    ]  # fmt: skip
    for parent, column in zip(source.parents, zip(*rows, strict=True), strict=True):
        if column[0] is not None:
            yield parent, torch.stack(column)


def _through_weight_norm(source: Source, gradients: Tensor) -> list[tuple[Source, Tensor]] | None:
    """Normalised weights w = g·v / ‖v‖: along v a gradient is g's, across it is v's."""
    if len(source.parents) != 2 or gradients.dtype != source.tensor.dtype:
        return None
    direction, length = source.parents
    v, g = direction.tensor.detach(), length.tensor.detach()
    if v.shape != source.tensor.shape or g.ndim not in {0, v.ndim}:
        return None
    over = [d for d in range(v.ndim) if g.ndim == 0 or g.shape[d] == 1]
    norm = torch.linalg.vector_norm(v, dim=over, keepdim=True)
    unit = v / norm
    along = (gradients * unit).sum([1 + d for d in over], keepdim=True)
    across = gradients.addcmul_(along, unit, value=-1).mul_(g / norm)
    return [(direction, across), (length, along.reshape(-1, *g.shape))]


_AT_ONCE: dict[Any, Callable[[Source, Tensor], list[tuple[Source, Tensor]] | None]] = {
    torch._weight_norm: _through_weight_norm,  # noqa: SLF001 - what both kinds of weight norm call
}
"""Functions whose backward pass is known for all samples at once; None for odd cases."""
