"""The exact way that takes anything: one sample, one forward, one backward."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from steepest.core.memory import is_out_of_memory
from steepest.errors import ModelError, SteepestError, in_one_line
from steepest.gradnorm.backward.scaling import scales_of_half
from steepest.modules import batches
from steepest.modules.batches import Inputs
from steepest.modules.checks import check_reached
from steepest.modules.losses import RowLosses

_PART = 2**19


def squares_one_by_one(
    call: Callable[[Inputs], Any],
    inputs: Inputs,
    losses: RowLosses,
    parameters: Mapping[str, nn.Parameter],
    *,
    half: bool = True,
) -> tuple[list[dict[nn.Parameter, Tensor]], list[Any]]:
    """Measure some parameters one sample at a time, through autograd alone.

    Args:
        call: Runs the model.
        inputs: N samples.
        losses: Maps outputs for some rows to losses, each [N].
        parameters: The parameters, by name; they require grad.
        half: Whether something may be in half precision on the way.

    Returns:
        For each loss the squared norms [N] of each parameter that any sample's gradient reached,
        and what the model returned for each sample.

    Raises:
        ModelError: If a backward pass fails; says why.
    """
    wanted = list(parameters.values())
    reached: set[int] = set()
    rows: list[list[Tensor]] = []
    said: list[Any] = []
    for i in range(batches.count(inputs)):
        here = slice(i, i + 1)
        outputs = call(batches.take(inputs, here))
        values = losses(outputs, here)
        if i == 0:
            check_reached(values)
        last = len(values) - 1
        try:
            rows.append(
                [
                    _squares_of(v, outputs, wanted, reached, keep=j < last, half=half)
                    for j, v in enumerate(values)
                ]
            )
        except (RuntimeError, ValueError) as error:
            raise _explained(error, list(parameters)) from error
        said.append(outputs.detach() if isinstance(outputs, Tensor) else None)
    stacked = [torch.stack(column) for column in zip(*rows, strict=True)]
    found = [{p: t[:, j] for j, p in enumerate(wanted) if j in reached} for t in stacked]
    return found, said


def _squares_of(
    loss: Tensor,
    outputs: Any,  # noqa: ANN401
    parameters: list[nn.Parameter],
    reached: set[int],
    *,
    keep: bool,
    half: bool,
) -> Tensor:
    """Return the squared gradient norms [P] of one sample's loss [1], and note who has one."""
    if not loss.requires_grad:
        return torch.zeros(len(parameters), dtype=torch.float64, device=loss.device)
    scale = torch.ones(len(loss), dtype=torch.float64, device=loss.device)
    if half:
        scale = scales_of_half(loss, outputs, parameters)
    scaled = (loss * scale.to(loss.dtype)).sum()
    grads = torch.autograd.grad(scaled, parameters, retain_graph=keep, allow_unused=True)
    zero = torch.zeros((), dtype=torch.float64, device=loss.device)
    found: Sequence[Tensor | None] = grads
    reached.update(j for j, g in enumerate(found) if g is not None)
    small = [g for g in found if g is not None and _is_small(g)]
    norms = iter(torch._foreach_norm(small, 2, dtype=torch.float64) if small else ())  # noqa: SLF001
    squares = [
        zero if g is None else next(norms).square() if _is_small(g) else square_in_double(g)
        for g in found
    ]
    return torch.stack([s.to(loss.device) for s in squares]) / scale.square()


def _is_small(gradient: Tensor) -> bool:
    """Say whether a gradient may be copied in double precision, with others of its kind."""
    kind = gradient.dtype in {torch.float32, torch.float64} and gradient.layout == torch.strided
    return kind and gradient.numel() <= _PART


def square_in_double(gradient: Tensor) -> Tensor:
    """Return the squared norm of a gradient, a part at a time: a copy in double would be large."""
    dense = gradient.to_dense()
    flat = (torch.view_as_real(dense) if dense.is_complex() else dense).flatten()
    if flat.numel() <= _PART:
        return flat.double().square().sum()
    return torch.stack([part.double().square().sum() for part in torch.split(flat, _PART)]).sum()


def _explained(error: Exception, names: list[str]) -> Exception:
    """Say in one line why a backward pass failed."""
    if is_out_of_memory(error) or isinstance(error, SteepestError):
        return error
    if "inplace operation" in str(error):
        return ModelError(
            f"the model overwrites in place what the gradient of {', '.join(names[:3])} needs: "
            "use the out-of-place form of that operation"
        )
    return ModelError(
        f"the model's backward pass failed ({in_one_line(error)}): its gradients must "
        "exist before their norms can"
    )
