"""Errors of reading that may pass: they say nothing about the file, and are not remembered."""

from __future__ import annotations

import errno

from steepest.errors import DataError

_OF_CONTENT = (
    *(errno.EINVAL, errno.EOVERFLOW),  # a damaged header sends decoders to impossible places
    *(errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG),
)


class GoneError(DataError):
    """The file is not there; it may come back as it was."""


class AccessError(DataError):
    """The file is there and cannot be read at this moment."""


def explain_transient(name: str, error: Exception) -> DataError | None:
    """Return what to say of an error that may pass; None if the file itself is to blame.

    Args:
        name: How the file is called.
        error: What was raised on opening or reading it.
    """
    if isinstance(error, (FileNotFoundError, NotADirectoryError)):
        return GoneError(f"{name}: the file is gone")
    if isinstance(error, MemoryError):
        return AccessError(f"{name}: cannot be read now (memory is short); it is tried again")
    # Decoders raise errors of the system's kind too, but without its number.
    if not isinstance(error, OSError) or error.errno is None or error.errno in _OF_CONTENT:
        return None
    return AccessError(f"{name}: cannot be read now ({error.strerror}); it is tried again")
