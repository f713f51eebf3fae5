"""Precision of a model's numbers, and tolerances that follow from it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from steepest.modules.batches import tensors_in
from steepest.modules.precision import casting_now

_STEPS = 16
"""So many roundings one way two computations of the same may differ by."""

_MOST = 0.25
"""Largest tolerance; numbers further apart differ at any precision."""


def coarseness_of(tensors: Iterable[Tensor]) -> float:
    """Return the largest step from one number to the next, as a part of it; 0 without any."""
    return _coarsest(tensor.dtype for tensor in tensors)


def _coarsest(kinds: Iterable[torch.dtype | None]) -> float:
    floats = {kind for kind in kinds if kind is not None and kind.is_floating_point}
    return max((torch.finfo(kind).eps for kind in floats), default=0.0)


def allowed(least: float, coarseness: float) -> float:
    """Return how far two computations of the same may differ, as a part of it.

    Args:
        least: What is allowed in any case.
        coarseness: Of the numbers that they are computed with.
    """
    return max(least, min(_MOST, _STEPS * coarseness))


def largest(tensor: Tensor) -> Tensor:
    """Return the largest size of a tensor's finite numbers, as a scalar that is not quite 0."""
    sizes = tensor.abs()
    sizes = sizes.where(torch.isfinite(sizes), 0)
    return sizes.max().clamp_min(1e-6) if sizes.numel() else sizes.new_tensor(1e-6)


def differ(one: Tensor, other: Tensor, within: Tensor | float) -> Tensor:
    """Say where two computations of the same are further apart than rounding explains.

    A difference that is NaN is not small: infinity is near to itself alone, and so is NaN.

    Args:
        one: [...].
        other: [...].
        within: How far apart they may be.

    Returns:
        [...], of bools.
    """
    near = ((one - other).abs() <= within) & torch.isfinite(one) & torch.isfinite(other)
    return ~(near | (one == other) | (one.isnan() & other.isnan()))


class Coarseness(TorchFunctionMode):
    """Sees in what precision a model computes, whatever its weights are in: it may cast.

    Attributes:
        worst: The coarseness of the results seen so far.
    """

    def __init__(self) -> None:
        super().__init__()
        self.worst = 0.0

    def __torch_function__(
        self,
        func: Callable[..., Any],
        _types: Any,  # noqa: ANN401
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401
        """Let one torch function run, and look at what it returns."""
        result = func(*args, **(kwargs or {}))
        found = tensors_in(result)
        # A recurrent layer casts within, and gives back what it was given.
        casts = _coarsest(casting_now(device)[1] for device in {t.device for t in found})
        self.worst = max(self.worst, coarseness_of(found), casts)
        return result
