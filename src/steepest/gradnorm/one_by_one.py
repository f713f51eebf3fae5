"""The exact way that takes anything: one sample, one forward, one backward; and the proof by it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
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
from steepest.modules.precision import allowed, differ

_PART = 2**19
_OFF = {torch.float64: 1e-5}
_OFF_SINGLE = 1e-2
_NEGLIGIBLE = 1e-2
"""So much of what is allowed, of a sample's whole gradient, may be rounding in any part of it."""


def squares_one_by_one(
    call: Callable[[Inputs], Any],
    inputs: Inputs,
    losses: RowLosses,
    parameters: Mapping[str, nn.Parameter],
    *,
    rows: Iterable[int] | None = None,
    half: bool = True,
) -> tuple[list[Tensor], set[nn.Parameter], list[Any]]:
    """Measure some parameters one sample at a time, through autograd alone.

    Args:
        call: Runs the model.
        inputs: N samples.
        losses: Maps outputs for some rows to losses, each [N].
        parameters: The P parameters, by name; they require grad.
        rows: The samples to measure; all of them by default.
        half: Whether something may be in half precision on the way.

    Returns:
        For each loss the squared norms [n, P], the parameters that any sample's gradient reached,
        and the model's outputs for each sample.

    Raises:
        ModelError: If a backward pass fails; says why.
    """
    wanted = list(parameters.values())
    reached: set[int] = set()
    found: list[list[Tensor]] = []
    said: list[Any] = []
    for i in range(batches.count(inputs)) if rows is None else rows:
        here = slice(i, i + 1)
        outputs = call(batches.take(inputs, here))
        values = losses(outputs, here)
        if not said:
            check_reached(values)
        last = len(values) - 1
        try:
            found.append(
                [
                    _squares_of(v, outputs, wanted, reached, keep=j < last, half=half)
                    for j, v in enumerate(values)
                ]
            )
        except (RuntimeError, ValueError) as error:
            raise _explained(error, list(parameters)) from error
        said.append(outputs.detach() if isinstance(outputs, Tensor) else None)
    tables = [torch.stack(column) for column in zip(*found, strict=True)]
    return tables, {wanted[j] for j in reached}, said


def _squares_of(
    loss: Tensor,
    outputs: Any,  # noqa: ANN401
    parameters: Sequence[nn.Parameter],
    reached: set[int],
    *,
    keep: bool,
    half: bool,
) -> Tensor:
    """Return the squared gradient norms [P] of one sample's loss [1], and note who has one."""
    squares = torch.zeros(len(parameters), dtype=torch.float64, device=loss.device)
    if not loss.requires_grad:
        return squares
    scale = scales_of_half(loss, outputs, parameters) if half else None
    scaled = loss if scale is None else loss * scale.to(loss.dtype)
    grads: Sequence[Tensor | None] = torch.autograd.grad(
        scaled.sum(), parameters, retain_graph=keep, allow_unused=True
    )
    present = [j for j, g in enumerate(grads) if g is not None]
    reached.update(present)
    small = [g for g in grads if g is not None and _is_small(g)]
    norms = iter(torch._foreach_norm(small, 2, dtype=torch.float64) if small else ())  # noqa: SLF001
    rows = [
        (next(norms).square() if _is_small(g) else square_in_double(g)).to(loss.device)
        for g in grads
        if g is not None
    ]
    if rows:
        squares[present] = torch.stack(rows)
    return squares if scale is None else squares / scale.square()


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


def disagreeing(
    found: Collection[Tensor], alone: Collection[Tensor], dtype: torch.dtype, coarseness: float
) -> Tensor:
    """Return which parameters [P] have squared norms that differ by more than rounding.

    Args:
        found: Squared norms [n, P], for each loss.
        alone: The same, measured for each sample alone.
        dtype: The precision of the weights.
        coarseness: Of the numbers that the model computes with.
    """
    rounding = allowed(_OFF.get(dtype, _OFF_SINGLE), coarseness)
    wrong = [
        differ(mine.sqrt(), exact.sqrt(), rounding * (exact.sqrt() + _NEGLIGIBLE * _size(exact)))
        for mine, exact in zip(found, alone, strict=True)
    ]
    return torch.cat(wrong).any(0)


def _size(squares: Tensor) -> Tensor:
    """Return the norms [n, 1] of whole gradients."""
    return squares.where(torch.isfinite(squares), 0).sum(1, keepdim=True).sqrt()
