"""Files and folders made on the way to whole ones, with errors that name the full disk."""

from __future__ import annotations

import io
from pathlib import Path

from steepest.data.download.disk import explain_write_error


def make_folder(folder: Path) -> None:
    """Make a folder and those above it, if they are not there.

    Raises:
        DataError: If that is not possible.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise explain_write_error(folder, error) from error


def create_file(path: Path) -> io.FileIO:
    """Open a new file, unbuffered: a write that returns has happened.

    Raises:
        DataError: If there is one already, or it cannot be made.
    """
    try:
        return path.open("xb", buffering=0)
    except OSError as error:
        raise explain_write_error(path, error) from error


def write_bytes(path: Path, file: io.FileIO, data: bytes) -> None:
    """Write all of some bytes.

    Raises:
        DataError: If the disk is full or refuses.
    """
    try:
        while data:
            data = data[file.write(data) :]
    except OSError as error:
        raise explain_write_error(path, error) from error


def rename(source: Path, target: Path) -> None:
    """Give a finished file or folder its name; a file of that name is replaced.

    Raises:
        DataError: If that is not possible.
    """
    try:
        source.replace(target)
    except OSError as error:
        raise explain_write_error(target, error) from error
