"""The slow, obviously right way: one sample, one forward, one backward."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from steepest.gradnorm.backward.scaling import scales_of_half
from steepest.gradnorm.norms import Norm, combine
from steepest.gradnorm.one_by_one import square_in_double
from steepest.gradnorm.watch.cudnn import CudnnUse
from steepest.modules import batches
from steepest.modules.batches import Inputs
from steepest.modules.losses import Loss, resolve
from steepest.modules.precision import precision_of
from steepest.modules.preserve import attributes_restored
from steepest.modules.real_tokens import classifies_tokens, has_padding, without_padding


def reference_norms(
    model: nn.Module,
    inputs: Inputs,
    loss: Loss = "entropy",
    *,
    targets: Tensor | None = None,
    norm: Norm = "l2",
) -> Tensor:
    """Return the same as ``gradient_norms``, by plain autograd on batches of one.

    Args:
        model: As for ``gradient_norms``; so are the other arguments.
        inputs: N samples.
        loss: A name or a callable.
        targets: Labels [N, ...] where the loss takes some.
        norm: The norm.

    Returns:
        [N], or [N, P] for ``"per-tensor"``.
    """
    parameters = [p for p in model.parameters() if p.requires_grad]
    total = batches.count(inputs)
    losses = resolve(loss, targets, total)
    trimmed = isinstance(loss, str) and has_padding(inputs) and _classifies_tokens(model, inputs)
    rows: list[Tensor] = []
    for i in range(total):
        here = slice(i, i + 1)
        single = batches.take(inputs, here)
        if trimmed:
            (text,) = without_padding(single)
            single, labels = (
                text.inputs,
                text.targets(targets if targets is None else targets[here]),
            )
            losses, here = resolve(loss, labels, 1), slice(0, 1)
        with CudnnUse(model.modules()).differentiable():
            with attributes_restored(model.modules()):
                outputs = batches.call(model, single)
            (value,) = losses(outputs, here)
            # As training in half precision does; ones elsewhere.
            scale = scales_of_half(value, outputs, parameters)
            scaled = (value * scale.to(value.dtype)).sum()
            grads = torch.autograd.grad(scaled, parameters, allow_unused=True)
        squares = torch.stack([_square(g, parameters[0]) for g in grads])
        rows.append(squares / scale.to(squares.device).square())
    dtype = torch.promote_types(precision_of(parameters), torch.float32)
    return combine(torch.stack(rows), norm).to(dtype)


def _classifies_tokens(model: nn.Module, inputs: Inputs) -> bool:
    with torch.no_grad(), attributes_restored(model.modules()):
        return classifies_tokens(lambda some: batches.call(model, some), inputs)


def _square(gradient: Tensor | None, like: Tensor) -> Tensor:
    if gradient is None:
        return torch.zeros((), dtype=torch.float64, device=like.device)
    return square_in_double(gradient)
