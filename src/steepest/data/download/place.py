"""Bring files from elsewhere on the disk into the data folder: linked if possible, else copied."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from steepest.core.files import SCRATCH_PREFIX
from steepest.core.progress import Progress, SilentProgress
from steepest.data.download.disk import check_room
from steepest.data.download.megabytes import count_megabytes
from steepest.data.download.writing import create_file, make_folder, rename, write_bytes
from steepest.errors import DataError

_CHUNK_BYTES = 1 << 20


def place(source: Path, target: Path, progress: Progress | None = None) -> None:
    """Make a file or folder appear at ``target``, whole or not at all.

    Files on the same disk share their bytes with the source (hard links); others are copied.
    The source stays as it is.

    Raises:
        DataError: If something cannot be read, the disk is full, or the target lies within the
            source. Nothing is left behind.
    """
    source = source.resolve()
    if target.resolve().is_relative_to(source):
        raise DataError(f"{target}: lies within {source}; choose another folder with --to")
    scratch = target.with_name(SCRATCH_PREFIX + target.name)
    try:
        _remove(scratch)
        make_folder(target.parent)
        files = list(_walk(source))
        if not files:
            raise DataError(f"{source}: nothing in it")
        copied = [size for path, _, size in files if path.stat().st_dev != _device(target.parent)]
        check_room(target.parent, sum(copied))
        total = sum(size for _, _, size in files)
        with count_megabytes(
            progress or SilentProgress(), f"bringing in {source.name}", total
        ) as count:
            for path, inside, size in files:
                _place_file(path, scratch / inside)
                count(size)
        rename(scratch, target)
    except OSError as error:
        raise DataError(
            f"{error.filename or source}: cannot be read ({error.strerror or error})"
        ) from error
    finally:
        _remove(scratch)


def _walk(source: Path) -> Iterator[tuple[Path, Path, int]]:
    """Yield each file, its path within the source, and its size."""
    if source.is_file():
        yield source, Path(), source.stat().st_size
        return
    for folder, subfolders, names in os.walk(source, onerror=_raise):
        for name in (*subfolders, *names):
            path = Path(folder, name)
            # Folders that are links may lead anywhere, or round in circles.
            if path.is_dir():
                if path.is_symlink():
                    raise DataError(f"{path}: a link to a folder; give the folder itself")
            elif path.is_file():
                yield path.resolve(), path.relative_to(source), path.stat().st_size
            else:
                raise DataError(f"{path}: neither a file nor a folder; remove it first")


def _place_file(source: Path, target: Path) -> None:
    make_folder(target.parent)
    try:
        target.hardlink_to(source)
    except OSError:  # another disk, or one that knows no links
        with source.open("rb") as read, create_file(target) as write:
            while chunk := read.read(_CHUNK_BYTES):
                write_bytes(target, write, chunk)
            os.fsync(write.fileno())


def _device(folder: Path) -> int:
    return folder.stat().st_dev


def _raise(error: OSError) -> None:
    raise error


def _remove(scratch: Path) -> None:
    if scratch.is_dir():
        shutil.rmtree(scratch)
    else:
        scratch.unlink(missing_ok=True)
