"""Volumes in a file that is mapped into memory: whole, or not there at all."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from steepest.core.files import replacing
from steepest.errors import DataError


def open_or_make(path: Path, shape: Sequence[int], parts: Iterable[Tensor]) -> Tensor:
    """Map a file of float32 values into memory; write it first if it is not there.

    It is written under another name and renamed when it is whole. What is changed in memory
    does not reach the file.

    Args:
        path: The file, in numpy's format.
        shape: Of all values [N, ...].
        parts: The values, some rows at a time; asked for only if they have to be written.

    Raises:
        DataError: If the file cannot be written.
    """
    wanted = tuple(shape)
    found = _map(path, wanted)
    if found is None:
        try:
            _write(path, wanted, parts)
        except OSError as error:
            raise DataError(
                f"{path}: cannot be written ({error.strerror or error}); make room there, or use "
                f"storage = 'memory' or 'stream'"
            ) from error
        found = _map(path, wanted)
    if found is None:
        raise DataError(f"{path}: cannot be read after writing; use storage = 'memory'")
    return found


def _map(path: Path, shape: tuple[int, ...]) -> Tensor | None:
    """Return the file's values, or None if it is not a whole file of that shape."""
    try:
        values = np.load(path, mmap_mode="c")
    except (OSError, EOFError, ValueError):
        return None
    if values.shape != shape or values.dtype != np.float32 or not values.flags.c_contiguous:
        return None
    return torch.from_numpy(values)


def _write(path: Path, shape: tuple[int, ...], parts: Iterable[Tensor]) -> None:
    with replacing(path) as file:
        header = {"descr": "<f4", "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, header)
        for part in parts:
            file.write(part.cpu().contiguous().numpy().tobytes())
