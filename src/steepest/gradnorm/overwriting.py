"""Calls in place that take parameters: which of them can be watched."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from steepest.gradnorm.reach import Reach
from steepest.gradnorm.sources import Source
from steepest.gradnorm.uses import Use

_SUMS = {torch.Tensor.add_, torch.Tensor.sub_}


def _multiplied(tensor: Tensor, *by: Any, **named: Any) -> Tensor:  # noqa: ANN401 - as torch has it
    result: Tensor = torch.mul(tensor, *by, **named)
    return result.to(tensor.dtype)


def _divided(tensor: Tensor, *by: Any, **named: Any) -> Tensor:  # noqa: ANN401 - as torch has it
    result: Tensor = torch.div(tensor, *by, **named)
    return result.to(tensor.dtype)


_COPYING: dict[Callable[..., Any], Callable[..., Any]] = {
    torch.relu_: torch.relu, torch.Tensor.relu_: torch.relu,
    torch.Tensor.mul_: _multiplied, torch.Tensor.__imul__: _multiplied,
    torch.Tensor.div_: _divided, torch.Tensor.__itruediv__: _divided,
}  # fmt: skip
"""What does the same to a copy, and keeps nothing of what was there for the backward pass."""


def adds_in_place(func: Callable[..., Any]) -> bool:
    """Say whether a function adds something to the data in place."""
    return func in _SUMS


def may_change_data(func: Callable[..., Any], target: Tensor, reach: Reach) -> bool:
    """Say whether what a call in place returns is sure to be what the model goes on with."""
    return func in _SUMS and not target._is_view() and reach(target)  # noqa: SLF001


def may_replace(
    func: Callable[..., Any],
    args: tuple[Any, ...],
    found: Sequence[Source],
    sources: Iterable[Source],
    uses: Iterable[Use],
) -> bool:
    """Say whether a call may write into what was made of parameters, as an activation does.

    Nothing may have taken it before, nor anything that shares its memory.

    Args:
        func: What is called.
        args: Its arguments.
        found: The sources among them.
        sources: All sources so far.
        uses: All uses so far.
    """
    if func not in _COPYING or len(found) != 1 or args[0] is not found[0].tensor:
        return False
    line = _line_of(found[0])
    others = [other for other in sources if other not in line]
    taken = any(mine in other.parents or _overlap(mine, other) for mine in line for other in others)
    taken = taken or any(mine in use.sources for mine in line for use in uses)
    return not taken and all(mine.parameter is None for mine in line)


def _line_of(source: Source) -> list[Source]:
    """Return a source, what it is a view of, what that is a view of, and so on."""
    line = [source]
    while len(line[-1].parents) == 1 and _overlap(line[-1], line[-1].parents[0]):
        line.append(line[-1].parents[0])
    return line


def _overlap(source: Source, other: Source) -> bool:
    places = (each.tensor.untyped_storage().data_ptr() for each in (source, other))
    return next(places) == next(places)


def copying(func: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that does the same to a copy; itself if it does so already."""
    return _COPYING.get(func, func)


def replace(func: Callable[..., Any], source: Source, result: Tensor) -> None:
    """Let everybody who looks at a source see what was written into it.

    Nobody may take it any more: ``result`` goes on in its place.
    """
    if func in _COPYING:
        with torch.no_grad():
            source.tensor.copy_(result)
        for mine in _line_of(source):
            mine.spent = True
