"""Bring every sample's gradient to a size around one before it is squared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from steepest.errors import ModelError
from steepest.modules import batches
from steepest.modules.batches import tensors_in
from steepest.modules.checks import is_unusual

_LARGEST = {torch.float16: 14}
_LARGEST_OTHERWISE = 120
"""Powers of two by which a loss can be multiplied, and its gradient still be written down."""

_STEPS_OF_HALF = (-36, 0, 36, 72, 108)
"""Half precision holds powers of two from -24 to 15: gradients of other sizes show at a step."""


def scales_of(values: Tensor, outputs: Any) -> Tensor:  # noqa: ANN401
    """Return powers of two [N] that bring each sample's gradient to a size around one.

    The squares of a sure sample's gradient would otherwise vanish in single precision. Scaling by
    a power of two is exact, and is undone afterwards.
    """
    sizes = [_size_of_gradient(values, tensor) for tensor in _reported(outputs, len(values))]
    found = [size.to(values.device) for size in sizes if size is not None]
    if not found:
        return _ones(values)
    size = torch.stack(found).amax(0)
    largest = _LARGEST.get(values.dtype, _LARGEST_OTHERWISE)
    exponents = torch.where(size > 0, size.clamp_min(1e-300).log2().floor(), 0)
    return torch.exp2(-exponents.clamp(-largest, largest)).to(values.device)


def _logits_of(outputs: Any) -> Tensor | None:  # noqa: ANN401
    try:
        return batches.logits_of(outputs)
    except ModelError:
        return None


def _reported(outputs: Any, samples: int) -> list[Tensor]:  # noqa: ANN401
    """Return what a loss may be computed from: the logits, or all rows that a model returned."""
    logits = _logits_of(outputs)
    if logits is not None:
        return [logits] if logits.requires_grad else []
    found = tensors_in(outputs) or tensors_in(getattr(outputs, "__dict__", {}))
    rows = [t for t in found if t.requires_grad and t.ndim and len(t) == samples]
    return [t for t in rows if not t.is_complex()]


def scales_of_half(
    values: Tensor,
    outputs: Any,  # noqa: ANN401
    parameters: Sequence[nn.Parameter],
) -> Tensor:
    """Return ``scales_of`` where a gradient passes through half precision, and ones [N] elsewhere.

    A backward pass of a sure sample loses its gradient in half precision at the first step. Ones
    as well for parameters with hooks: these have to see the gradient as it is.
    """
    if not any(map(is_unusual, parameters)) and _passes_half(values):
        return scales_of(values, outputs)
    return _ones(values)


def _ones(values: Tensor) -> Tensor:
    return torch.ones(len(values), dtype=torch.float64, device=values.device)


def rescaled(squares: Mapping[nn.Parameter, Tensor], scales: Tensor) -> dict[nn.Parameter, Tensor]:
    """Undo the scaling of squared norms [N], for all parameters at once."""
    if not squares:
        return {}
    device = scales.device
    found = [s if s.device == device else s.to(device) for s in squares.values()]
    table = torch.stack(found).double() / scales.square()
    return dict(zip(squares, table.unbind(), strict=True))


def _passes_half(values: Tensor) -> bool:
    """Say whether something on the way back from the losses [N] is in half precision.

    Logits in single precision need not be: many models cast theirs at the end.
    """
    start = values.grad_fn
    seen, waiting = {start}, [start]
    while waiting:
        node = waiting.pop()
        if node is None:
            continue
        if any(kind.dtype == torch.float16 for kind in node._input_metadata):  # noqa: SLF001
            return True
        below = {following for following, _ in node.next_functions} - seen
        seen |= below
        waiting.extend(below)
    return False


def _size_of_gradient(values: Tensor, logits: Tensor) -> Tensor | None:
    """Return the largest entry of each sample's gradient of the logits [N], if there is one."""
    # A loss that is itself in half precision cannot be multiplied by more than that holds.
    by_steps = logits.dtype == torch.float16 and values.dtype != torch.float16
    size: Tensor | None = None
    for step in _STEPS_OF_HALF if by_steps else (0,):
        loss = (values * 2.0**step).sum() if step else values.sum()
        (found,) = torch.autograd.grad(loss, logits, retain_graph=True, allow_unused=True)
        gradient: Tensor | None = found
        if gradient is None:
            return None
        here = gradient.reshape(len(gradient), -1).abs().amax(1).double()
        here = here * 2.0**-step if step else here
        size = here if size is None else torch.where(size == 0, here, size)
    return size
