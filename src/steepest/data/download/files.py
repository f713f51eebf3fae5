"""Files in the data folder: disk space, checksums, progress in megabytes, links and copies."""

from __future__ import annotations

import errno
import hashlib
import io
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from steepest.core.files import SCRATCH_PREFIX
from steepest.core.http_requests import Patience
from steepest.core.progress import Progress, SilentProgress
from steepest.errors import DataError

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_UNITS = ((10**9, "GB"), (10**6, "MB"), (10**3, "kB"))
_MEGABYTE = 10**6
_CHUNK_BYTES = 1 << 20


def format_bytes(count: int) -> str:
    """Return a size for people, in decimal units."""
    for unit, name in _UNITS:
        if count >= unit:
            return f"{count / unit:.1f} {name}"
    return f"{count} bytes"


def check_room(folder: Path, needed_bytes: int) -> None:
    """Raise if a folder's disk has less room than is needed.

    Raises:
        DataError: With the space needed and the space left.
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
        error: The system's error.
        kept: The part of the work that is kept, for the message.
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


@contextmanager
def count_megabytes(
    progress: Progress, description: str, total_bytes: int | None, done_bytes: int = 0
) -> Iterator[Callable[[int], None]]:
    """Start a piece of work and yield a function that takes further bytes.

    Args:
        progress: Where it is shown.
        description: The work in progress.
        total_bytes: The total size; None if unknown.
        done_bytes: How much was done before.
    """
    text = f"{description} (MB)" if total_bytes is not None else f"{description} (MB, size unknown)"
    total = -(-(total_bytes or 0) // _MEGABYTE)
    with progress.task(text, total) as step:
        step.advance(done_bytes // _MEGABYTE)
        done = done_bytes

        def count(further_bytes: int) -> None:
            nonlocal done
            before, done = done, done + further_bytes
            step.advance(done // _MEGABYTE - before // _MEGABYTE)

        yield count


def _keep_quiet(_: str) -> None:
    pass


@dataclass(frozen=True)
class Effort:
    """Settings shared by downloads, unpacking and checks.

    Attributes:
        progress: Where bytes are shown.
        tell: Takes a line about anything unusual.
        patience: When to give up on a server.
    """

    progress: Progress = field(default_factory=SilentProgress)
    tell: Callable[[str], None] = _keep_quiet
    patience: Patience = field(default_factory=Patience)


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


def compute_md5(path: Path, progress: Progress | None = None) -> str:
    """Return a file's MD5 sum as 32 hexadecimal digits.

    Raises:
        DataError: If the file cannot be read.
    """
    digest = hashlib.md5(usedforsecurity=False)
    try:
        total = path.stat().st_size
        with (
            path.open("rb") as file,
            count_megabytes(progress or SilentProgress(), f"checking {path.name}", total) as count,
        ):
            while chunk := file.read(_CHUNK_BYTES):
                digest.update(chunk)
                count(len(chunk))
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error})") from error
    return digest.hexdigest()
