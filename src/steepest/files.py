"""Files that are whole or not there at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from steepest.errors import InputError

SCRATCH_PREFIX = ".steepest-"
"""How the name of a file begins that a kill may leave behind half-written."""


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write a file so that a crash leaves the old one or the new one, never a part.

    Raises:
        InputError: If the file cannot be written there.
    """
    data = content.encode() if isinstance(content, str) else content
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(
            dir=path.parent, prefix=SCRATCH_PREFIX, delete=False
        ) as file:
            temporary = Path(file.name)
            try:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
                temporary.chmod(0o644)
                temporary.replace(path)
            except BaseException:
                temporary.unlink(missing_ok=True)
                raise
    except OSError as error:
        reason = error.strerror or error
        raise InputError(
            f"{path}: cannot be written ({reason}); make room there or choose another place"
        ) from error


def check_writable(path: Path) -> None:
    """Raise early if a file could not be written there; long work may come before it.

    Raises:
        InputError: Says why.
    """
    folder = path.parent
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    if path.is_dir() or not folder.is_dir() or not os.access(folder, os.W_OK):
        raise InputError(f"{path}: cannot be written; choose another place")
