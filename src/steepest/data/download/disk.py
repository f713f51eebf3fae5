"""Room on the disk: is there enough, and what to say when there is not."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path

from steepest.errors import DataError

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_UNITS = ((10**9, "GB"), (10**6, "MB"), (10**3, "kB"))


def format_bytes(count: int) -> str:
    """Return a size for people, in decimal units."""
    for unit, name in _UNITS:
        if count >= unit:
            return f"{count / unit:.1f} {name}"
    return f"{count} bytes"


def check_room(folder: Path, needed_bytes: int) -> None:
    """Raise if a folder's disk has less room than is needed.

    Raises:
        DataError: Says how much is needed and how much there is.
    """
    free = shutil.disk_usage(folder).free
    if needed_bytes > free:
        raise DataError(
            f"{folder}: {format_bytes(needed_bytes)} are needed and {format_bytes(free)} are free; "
            "make room or choose another folder with --to"
        )


def explain_write_error(path: Path, error: OSError, kept: str = "") -> DataError:
    """Return the error to raise when a file cannot be written.

    Args:
        path: The file.
        error: What the system said.
        kept: What is left of the work so far, for the message.
    """
    aside = f" ({kept})" if kept else ""
    if error.errno in _FULL:
        return DataError(
            f"{path}: the disk is full{aside}; make room there, or choose another folder with "
            "--to, and run the same command again"
        )
    return DataError(
        f"{path}: cannot be written ({error.strerror or error}){aside}; "
        "choose a folder you may write to"
    )
