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


_WALKED = 64
"""So many steps from losses to logits are looked at."""

_FAINT = 1e-30
"""Gradients smaller than this, or larger than one over it, are scaled in double precision."""


def scaled_sum(
    values: Tensor,
    outputs: Any,  # noqa: ANN401
    *,
    by_values: bool,
) -> tuple[Tensor, Tensor]:
    """Add up losses [N], scaled such that each sample's gradient has a size around one.

    To find that size takes the losses back to the logits. Where nothing else leads to the
    parameters, and no digits are lost, the backward pass may go on from there: it starts from a
    number that has the same gradient.

    Args:
        values: The losses [N].
        outputs: The model's output.
        by_values: Whether to look at values, for which a GPU would have to be waited for.

    Returns:
        What to send back, and by what each sample's loss was multiplied [N].
    """
    logits = _logits_of(outputs)
    if by_values and logits is not None and _starts_there(values, logits):
        (gradient,) = torch.autograd.grad(values.sum(), logits, retain_graph=True)
        size = gradient.abs().amax(tuple(range(1, gradient.ndim)), keepdim=True)
        least, most = size.aminmax()
        if float(least) > _FAINT and float(most) < 1 / _FAINT:
            scales = torch.exp2(-size.log2().floor())
            return (logits * (gradient * scales)).sum(), scales.flatten().double()
    scales = scales_of(values, outputs)
    return (values * scales.to(values.dtype)).sum(), scales


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


def _starts_there(values: Tensor, logits: Tensor) -> bool:
    """Say whether a backward pass of the losses [N] may go on from the gradient of the logits."""
    if logits.grad_fn is None or logits._backward_hooks or logits.shape[0] != values.shape[0]:  # noqa: SLF001
        return False
    return logits.dtype in {torch.float32, torch.float64} and only_through(values, logits)


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


def only_through(result: Tensor, gate: Tensor) -> bool:
    """Say whether all that a result would send a gradient to lies behind another tensor.

    Args:
        result: Was made of the other one, and perhaps of more.
        gate: No leaf.
    """
    start, end = result.grad_fn, gate.grad_fn
    seen, waiting = {start}, [start]
    while waiting:
        node = waiting.pop()
        if node is None or len(seen) > _WALKED:
            return False
        below = [edge for edge in node.next_functions if edge[0] is not None]
        if not below:
            return False  # A leaf.
        for following, place in below:
            if following is end:
                if place != gate.output_nr:
                    return False
            elif following not in seen:
                seen.add(following)
                waiting.append(following)
    return True
