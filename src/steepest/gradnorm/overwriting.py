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
_COPYING: dict[Callable[..., Any], Callable[..., Any]] = {
    torch.relu_: torch.relu, torch.Tensor.relu_: torch.relu,
}  # fmt: skip
"""What does the same to a copy. It keeps nothing but its result for the backward pass."""


def adds_in_place(func: Callable[..., Any]) -> bool:
    """Say whether a function adds something to the data in place."""
    return func in _SUMS


def may_change_data(func: Callable[..., Any], target: Tensor, reach: Reach) -> bool:
    """Say whether what a call in place returns is sure to be what the model goes on with."""
    return func in _SUMS and not target._is_view() and reach(target)  # noqa: SLF001


def may_replace(
    func: Callable[..., Any],
    found: Sequence[Source],
    sources: Iterable[Source],
    uses: Iterable[Use],
) -> bool:
    """Say whether a call may write into what was made of parameters, as an activation does.

    Nothing may have taken it before, and nothing may share its memory.

    Args:
        func: What is called.
        found: The sources that it takes.
        sources: All sources so far.
        uses: All uses so far.
    """
    if func not in _COPYING or len(found) != 1:
        return False
    (source,) = found
    others = [other for other in sources if other is not source]
    taken = any(source in other.parents or _overlap(source, other) for other in others)
    taken = taken or any(source in use.sources for use in uses)
    return source.parameter is None and not taken


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
        source.spent = True
