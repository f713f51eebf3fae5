"""Pickles that hold arrays and plain values, read without running what they ask for.

A pickle may name any function to call while it is read. Here it can name only the few that
rebuild numpy arrays; everything else is refused by name.
"""

from __future__ import annotations

import io
import pickle
from typing import Any

import numpy as np

from steepest.errors import DataError, first_line


def load_array_pickle(data: bytes, source: str) -> object:
    """Read a pickle of numpy arrays, containers, numbers and strings.

    Args:
        data: The pickle. Strings of Python 2 come back as bytes.
        source: The file's name for error messages.

    Raises:
        DataError: If it is damaged, or asks for anything but arrays.
    """
    try:
        return _ArrayUnpickler(io.BytesIO(data), source).load()
    except DataError:
        raise
    except Exception as error:  # damaged bytes make the unpickler raise almost anything
        raise DataError(f"{source}: truncated or damaged ({first_line(error)})") from error


class _ArrayUnpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, source: str) -> None:
        super().__init__(file, encoding="bytes")
        self._source = source

    def find_class(self, module: str, name: str) -> Any:  # noqa: ANN401 - as in the base class
        match f"{module}.{name}":
            case "numpy.core.multiarray._reconstruct" | "numpy._core.multiarray._reconstruct":
                # Asked of an array, because the module's public path depends on numpy's version.
                return np.empty(0).__reduce__()[0]
            case "numpy.ndarray":
                return np.ndarray
            case "numpy.dtype":
                return _make_dtype
            case "_codecs.encode":
                return _encode_latin1
            case refused:
                raise DataError(
                    f"{self._source}: the pickle asks for {refused!r}, which arrays do not need, "
                    "and is not read"
                )


def _make_dtype(code: Any, align: Any = False, copy: Any = False) -> np.dtype[Any]:  # noqa: ANN401
    """Rebuild a dtype; old pickles give 0 and 1 where numpy wants booleans."""
    dtype: np.dtype[Any] = np.dtype(code, align=bool(align), copy=bool(copy))
    return dtype


def _encode_latin1(text: str, encoding: Any) -> bytes:  # noqa: ANN401 - bytes or str by protocol
    """Rebuild bytes that were pickled as text, the only use pickle itself has for it."""
    if encoding not in ("latin1", b"latin1"):
        raise pickle.UnpicklingError("bytes in an unexpected encoding")
    return text.encode("latin1")
