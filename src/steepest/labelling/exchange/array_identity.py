"""Identifies an array of samples, where ids are mere row numbers."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

_WHOLE_BYTES = 1 << 30
"""Up to this size an array is looked at as a whole: reading more takes longer than it is worth."""
_CHUNK_BYTES = 16 << 20
_LEAST_ROWS = 16


@dataclass(frozen=True)
class ArrayIdentity:
    """Properties that stay the same as long as row numbers refer to the same samples.

    Attributes:
        shape: [N, ...].
        content: Hash of the values.
    """

    shape: tuple[int, ...]
    content: str


def identify_array(array: npt.NDArray[Any], whole_bytes: int = _WHOLE_BYTES) -> ArrayIdentity:
    """Return an array's shape and a hash of its values.

    Rows that were put in another order show, and so do values that were changed; in an array larger
    than ``whole_bytes`` only in rows that are looked at, which lie evenly from first to last.

    Args:
        array: The samples [N, ...].
        whole_bytes: About how much of it is read at most.
    """
    digest = hashlib.blake2b(array.dtype.str.encode(), digest_size=8)
    for rows in _looked_at(array, whole_bytes):
        digest.update(np.ascontiguousarray(rows).tobytes())
    return ArrayIdentity(tuple(map(int, array.shape)), digest.hexdigest())


def _looked_at(array: npt.NDArray[Any], whole_bytes: int) -> Iterator[npt.NDArray[Any]]:
    count = len(array)
    row_bytes = max(array.nbytes // max(count, 1), 1)
    if array.nbytes > whole_bytes:
        wanted = min(max(whole_bytes // row_bytes, _LEAST_ROWS), count)
        for row in np.linspace(0, count - 1, wanted).round().astype(int):
            yield array[row]
        return
    step = max(_CHUNK_BYTES // row_bytes, 1)
    for start in range(0, count, step):
        yield array[start : start + step]
