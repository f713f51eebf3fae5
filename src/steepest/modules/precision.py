"""Precision of matrix products and of a model's numbers, and the tolerances that follow."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import reduce
from typing import Any, Literal, get_args

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from steepest.errors import UnknownNameError
from steepest.modules.batches import tensors_in

Precision = Literal["fp32", "tf32", "bf16"]
"""``fp32`` as the weights are; ``tf32`` allows GPUs ten bits of fraction; ``bf16`` casts."""


_ALWAYS_KNOWN = {"cpu", "cuda"}
"""Kinds of devices that any build of torch can cast on."""

Casting = tuple[str, torch.dtype | None]
"""A kind of device, and what ``torch.autocast`` casts to there, if anything."""
_STEPS = 16
"""So many roundings one way two computations of the same may differ by."""

_MOST = 0.25
"""Largest tolerance; numbers further apart differ at any precision."""


def check_precision(precision: str) -> None:
    """Raise on an unknown precision.

    Raises:
        UnknownNameError: Names the nearest.
    """
    if precision not in get_args(Precision):
        raise UnknownNameError("precision", str(precision), get_args(Precision))


def precision_of(parameters: Iterable[Tensor]) -> torch.dtype:
    """Return the finest precision of some parameters; bytes are not computed with."""
    found = {p.dtype.to_real() for p in parameters if p.itemsize > 1}
    return reduce(torch.promote_types, found) if found else torch.float32


@contextmanager
def computing_in(precision: Precision, device: torch.device) -> Iterator[None]:
    """Multiply in some precision; the process's own settings come back afterwards."""
    matmul = torch.get_float32_matmul_precision()
    convolution = torch.backends.cudnn.allow_tf32
    allowed = precision != "fp32"
    # Mixed sums stay in single precision: only products are made coarser.
    torch.set_float32_matmul_precision("high" if allowed else "highest")
    torch.backends.cudnn.allow_tf32 = allowed
    try:
        with _casting_for(precision, device):
            yield
    finally:
        torch.set_float32_matmul_precision(matmul)
        torch.backends.cudnn.allow_tf32 = convolution


def _casting_for(precision: Precision, device: torch.device) -> AbstractContextManager[object]:
    cast = precision == "bf16"
    if not cast and casting_now(device)[1] is None:
        return nullcontext()
    # What is cast and kept outside a recording would not be cast again within it.
    return torch.autocast(device.type, dtype=torch.bfloat16, enabled=cast, cache_enabled=False)


def casting_now(device: torch.device) -> Casting:
    """Return the active autocast type of a device."""
    kind = device.type
    known = kind in _ALWAYS_KNOWN or torch.amp.is_autocast_available(kind)
    casts = known and torch.is_autocast_enabled(kind)
    return kind, torch.get_autocast_dtype(kind) if casts else None


def casting_as(casting: Casting) -> AbstractContextManager[object]:
    """Cast as at an earlier moment."""
    kind, dtype = casting
    if casting_now(torch.device(kind)) == casting:
        return nullcontext()
    return torch.autocast(kind, dtype=dtype, enabled=dtype is not None, cache_enabled=False)


def coarseness_of(tensors: Iterable[Tensor]) -> float:
    """Return the largest step from one number to the next, as a part of it; 0 without any."""
    return _coarsest(tensor.dtype for tensor in tensors)


def _coarsest(kinds: Iterable[torch.dtype | None]) -> float:
    floats = {kind for kind in kinds if kind is not None and kind.is_floating_point}
    return max((torch.finfo(kind).eps for kind in floats), default=0.0)


def allowed(least: float, coarseness: float) -> float:
    """Return how far two computations of the same may differ, as a part of it.

    Args:
        least: The error allowed in any case.
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
    """Observes the precision a model computes in, which casts may change.

    Attributes:
        worst: The coarseness of the results seen so far.
        called: The functions seen so far.
    """

    def __init__(self) -> None:
        super().__init__()
        self.worst = 0.0
        self.called: set[Callable[..., Any]] = set()
        self._seen: set[tuple[torch.dtype, torch.dtype | None]] = set()

    def __torch_function__(
        self,
        func: Callable[..., Any],
        _types: Any,  # noqa: ANN401
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401
        """Run one torch function and inspect its result."""
        result = func(*args, **(kwargs or {}))
        self.called.add(func)
        for tensor in tensors_in(result):
            # A recurrent layer casts within, and gives back what it was given.
            kinds = tensor.dtype, casting_now(tensor.device)[1]
            if kinds not in self._seen:
                self._seen.add(kinds)
                self.worst = max(self.worst, _coarsest(kinds))
        return result
