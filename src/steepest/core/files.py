"""Files that are whole or not there at all, and where they are."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from steepest.errors import InputError

SCRATCH_PREFIX = ".steepest-"
"""Prefix of half-written files, which a kill may leave behind."""


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write a file so that a crash leaves the old one or the new one, never a part.

    Raises:
        InputError: If the file cannot be written there.
    """
    data = content.encode() if isinstance(content, str) else content
    try:
        with replacing(path) as file:
            file.write(data)
    except OSError as error:
        reason = error.strerror or error
        raise InputError(
            f"{path}: cannot be written ({reason}); make room there or choose another place"
        ) from error


@contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """Yield a file to write to, which takes the path's place once it is whole.

    Its permissions stay as before; those of a new file follow the user's umask.

    Raises:
        OSError: If it cannot be written there.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = scratch_beside(path)
    with scratch.open("xb") as file:
        try:
            yield file
            file.flush()
            os.fsync(file.fileno())
            with suppress(OSError):
                scratch.chmod(path.stat().st_mode & 0o777)
            scratch.replace(path)
        except BaseException:
            scratch.unlink(missing_ok=True)
            raise


def scratch_beside(path: Path) -> Path:
    """Return an unused name beside a path, for a file that will replace it."""
    return path.parent / f"{SCRATCH_PREFIX}{secrets.token_hex(8)}"


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


def expand_home(path: str | Path) -> Path:
    """Return a path with ``~`` at its beginning replaced by the home folder.

    Raises:
        InputError: If there is none, as for a misspelt user or in a bare container.
    """
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        raise InputError(f"{path}: there is no such home folder; give the whole path") from error
