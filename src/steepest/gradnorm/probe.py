"""Which layers can be measured in one batched pass: those that keep the samples in order.

A rule takes row i of what passes through a layer for sample i. Two tiny batches, made of the
first samples, tell whether that holds: the first dimension must follow the batch size, and the
gradient in row i must follow the weight of sample i's loss. They also show a model that mixes
its samples.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from steepest.errors import ModelError
from steepest.gradnorm import inputs as batches
from steepest.gradnorm.capture import Capture
from steepest.gradnorm.inputs import Inputs
from steepest.gradnorm.losses import RowLosses

_SMALL, _LARGE = 2, 8


def find_batched(
    model: nn.Module, capture: Capture, inputs: Inputs, losses: RowLosses
) -> set[nn.Module]:
    """Return the layers that keep the samples first and in order."""
    total = batches.count(inputs)
    batched = set(capture.batched)
    outputs: list[Any] = []
    for size in (_SMALL, 3 if total < 3 else min(total, _LARGE)):
        capture.start(size)
        rows = torch.arange(size, device=batches.tensors_of(inputs)[0].device) % total
        outputs.append(batches.call(model, batches.take(inputs, rows)))
        batched = {
            layer for layer in batched if capture.calls[layer] == 1 and layer not in capture.spoilt
        }
        if size <= total:
            values = losses(outputs[-1], slice(0, size))
            batched -= _out_of_order(capture, values[0])
    _check_independence(*outputs)
    return batched


def _out_of_order(capture: Capture, values: Tensor) -> set[nn.Module]:
    """Return the layers whose row i does not follow the loss of sample i."""
    if not values.requires_grad:
        return set()
    # Powers of two scale exactly, so that no rounding can be taken for disorder.
    weights = torch.exp2(torch.arange(len(values), dtype=torch.float64, device=values.device) - 3)
    plain = _row_squares(capture, values.sum(), keep=True)
    weighted = _row_squares(capture, (values * weights.to(values.dtype)).sum(), keep=False)
    found = set()
    for layer, squares in plain.items():
        expected = squares * weights.square().to(squares.device)
        if bool(((weighted[layer] - expected).abs() > 0.1 * expected + 1e-300).any()):
            found.add(layer)
    return found


def _row_squares(capture: Capture, loss: Tensor, *, keep: bool) -> dict[nn.Module, Tensor]:
    capture.phase = "rows"
    capture.row_squares = {}
    torch.autograd.grad(loss, capture.sources(), retain_graph=keep, allow_unused=True)
    return capture.row_squares


def _check_independence(small: Any, large: Any) -> None:  # noqa: ANN401
    try:
        a = batches.logits_of(small).detach()
        b = batches.logits_of(large).detach()[: len(a)]
    except ModelError:
        return  # A loss of the user's own reads outputs that we cannot.
    if a.shape != b.shape or not bool(torch.isfinite(a).all()):
        return
    scale = a.abs().max().clamp_min(1e-6)
    if bool(((a - b).abs() > 1e-2 * scale).any()):
        raise ModelError(
            "the model's output for a sample changes with the other samples of its batch, or from "
            "call to call, so a per-sample gradient is not defined: switch off what mixes or "
            "draws (model.eval(); no functional dropout)"
        )
