"""In what precision to multiply."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import reduce
from typing import Literal, get_args

import torch
from torch import Tensor

from steepest.errors import UnknownNameError

Precision = Literal["fp32", "tf32", "bf16"]
"""``fp32`` as the weights are; ``tf32`` allows GPUs ten bits of fraction; ``bf16`` casts."""


_ALWAYS_KNOWN = {"cpu", "cuda"}
"""Kinds of devices that any build of torch can cast on."""

Casting = tuple[str, torch.dtype | None]
"""A kind of device, and what ``torch.autocast`` casts to there, if anything."""


def check_precision(precision: str) -> None:
    """Raise if there is no such precision.

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
    """Return what is cast to on a device at the moment, by a model's own autocast too."""
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
