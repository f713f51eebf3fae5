"""In what precision to multiply."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal, get_args

import torch

from steepest.errors import UnknownNameError

Precision = Literal["fp32", "tf32", "bf16"]
"""``fp32`` as the weights are; ``tf32`` allows GPUs ten bits of fraction; ``bf16`` casts."""


def check_precision(precision: str) -> None:
    """Raise if there is no such precision.

    Raises:
        UnknownNameError: Names the nearest.
    """
    if precision not in get_args(Precision):
        raise UnknownNameError("precision", str(precision), get_args(Precision))


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
        # What is cast and kept outside a recording would not be cast again within it.
        with torch.autocast(
            device.type,
            dtype=torch.bfloat16,
            enabled=precision == "bf16",
            cache_enabled=False,
        ):
            yield
    finally:
        torch.set_float32_matmul_precision(matmul)
        torch.backends.cudnn.allow_tf32 = convolution
