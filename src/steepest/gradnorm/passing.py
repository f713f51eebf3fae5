"""Send per-sample gradients of what was made of parameters back to the parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

from steepest.gradnorm.sources import Source


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
    at_once = _AT_ONCE.get(source.maker)
    found = None if at_once is None else at_once(source, gradients)
    return _one_by_one(source, gradients) if found is None else found


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
