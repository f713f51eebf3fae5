"""The public function: exact per-sample gradient norms."""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import Tensor, nn

from steepest.errors import InputError, NonFiniteError, UnknownNameError
from steepest.gradnorm import inputs as batches
from steepest.gradnorm.engine import Engine
from steepest.gradnorm.inputs import Inputs
from steepest.gradnorm.losses import Loss, resolve
from steepest.gradnorm.preserve import preserved_buffers

SampleNorm = Literal["l2", "tensor-sum"]
"""A norm with one value per sample."""

Norm = Literal["l2", "tensor-sum", "per-tensor"]


def gradient_norms(
    model: nn.Module,
    inputs: Inputs,
    loss: Loss = "entropy",
    *,
    targets: Tensor | None = None,
    norm: Norm = "l2",
    microbatch: int | None = None,
) -> Tensor:
    """Return the norm of each sample's gradient over all trainable parameters.

    The result is exact for any module in eval mode: layers with a rule are measured in one
    batched pass, everything else sample by sample. The model is left as found.

    Args:
        model: Any module in eval mode. Its output is a tensor of logits [N, C, ...], or an object
            or dict that carries ``logits``.
        inputs: N samples on the model's device: a tensor, a tuple of positional tensors or a dict
            of keyword tensors.
        loss: ``"entropy"`` or ``"expected"`` (the paper's two schemes; label-free),
            ``"pseudo-label"``, ``"cross-entropy"`` with targets, or a callable
            ``outputs[, targets] -> [N]``.
        targets: Labels [N, ...] where the loss takes some.
        norm: ``"l2"``: the Euclidean norm of the whole gradient. ``"tensor-sum"``: the sum of the
            norms of its tensors, as in the published code of the paper. ``"per-tensor"``: the
            norms of its tensors.
        microbatch: Samples in flight at once; None takes all of them.

    Returns:
        [N], or [N, P] for ``"per-tensor"`` with one column per trainable parameter in the order
        of ``model.named_parameters()``.

    Raises:
        ModelError: If the model is in training mode, mixes samples or returns no logits.
        NonFiniteError: If inputs, weights or results are not finite.
        InputError: If an argument does not fit.
    """
    check_norm(norm)
    if microbatch is not None and (type(microbatch) is not int or microbatch < 1):
        raise InputError(f"microbatch must be a whole number of at least 1, not {microbatch}")
    if targets is not None and not isinstance(targets, Tensor):
        raise InputError(f"targets must be a tensor, not {type(targets).__name__}")
    total = batches.count(inputs)
    batches.check_finite(inputs)
    losses = resolve(loss, targets, total)
    engine = Engine(model)
    dtype = engine.dtype
    parts: list[Tensor] = []
    step = microbatch or max(total, 1)
    for start in range(0, total, step):
        rows = slice(start, min(start + step, total))

        def here(outputs: object, part: slice, begin: int = start) -> list[Tensor]:
            return losses(outputs, slice(begin + part.start, begin + part.stop))

        with preserved_buffers(engine.model):
            _, (squares,) = engine.squared_norms(batches.take(inputs, rows), here)
        parts.append(combine(squares, norm))
    if not parts:
        empty = torch.zeros(0, len(engine.names), dtype=dtype)
        return empty if norm == "per-tensor" else empty.sum(1)
    result = torch.cat(parts).to(dtype)
    if not bool(torch.isfinite(result).all()):
        raise NonFiniteError("a gradient is NaN or infinite: look at the model's outputs")
    return result


def combine(squares: Tensor, norm: Norm) -> Tensor:
    """Turn squared norms per tensor [N, P] into the norm asked for: [N], or [N, P]."""
    if norm == "l2":
        return squares.sum(1).sqrt()
    roots = squares.sqrt()
    return roots.sum(1) if norm == "tensor-sum" else roots


def check_norm(norm: str) -> None:
    """Raise if there is no such norm.

    Raises:
        UnknownNameError: Names the nearest.
    """
    if norm not in get_args(Norm):
        raise UnknownNameError("norm", norm, get_args(Norm))
