"""The members of zip and tar archives, also of one inside another, as one stream."""

from __future__ import annotations

import lzma
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

from steepest.errors import DataError, first_line

_CHUNK_BYTES = 1 << 20
_DAMAGED = (
    OSError,
    EOFError,
    ValueError,
    RuntimeError,  # a zip file that needs a password, or a method that is not known
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
)


@dataclass(frozen=True)
class Member:
    """One thing in an archive.

    Attributes:
        name: Its path there.
        kind: ``"file"``, ``"folder"``, or what else it is.
        open: Opens a file's bytes; only until the next member is asked for.
    """

    name: str
    kind: str
    open: Callable[[], IO[bytes]]


@contextmanager
def open_archive(path: Path, inner: str = "") -> Iterator[Iterator[Member]]:
    """Open a zip or tar archive.

    Args:
        path: The archive, compressed in any way that its format knows.
        inner: The name of a tar archive within it that is meant instead.

    Raises:
        DataError: If it is no archive or damaged, also while members are read within the ``with``
            block, or the inner one is not in it.
    """
    try:
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                yield from _enter(_zip_members(archive), path, inner)
        else:
            with path.open("rb") as file, tarfile.open(fileobj=file, mode="r|*") as stream:
                yield from _enter(_tar_members(stream), path, inner)
    except _DAMAGED as error:
        raise DataError(
            f"{path}: not an archive, or damaged ({first_line(error)}); remove it and get it again"
        ) from error


def enter_each(members: Iterator[Member]) -> Iterator[Member]:
    """Replace each tar archive among the members by its own members, in a folder of its name."""
    for member in members:
        if member.kind != "file" or not member.name.endswith(".tar"):
            yield member
            continue
        folder = member.name.removesuffix(".tar")
        with member.open() as file, tarfile.open(fileobj=file, mode="r|") as stream:
            for inner in _tar_members(stream):
                yield replace(inner, name=f"{folder}/{inner.name}")


def check_archive(path: Path, inner: str = "") -> None:
    """Read an archive to its end, for those that no published checksum vouches for.

    Raises:
        DataError: If it is damaged.
    """
    with open_archive(path, inner) as members:
        for member in members:
            if member.kind == "file":
                with member.open() as file:
                    while file.read(_CHUNK_BYTES):
                        pass


def _enter(members: Iterator[Member], path: Path, inner: str) -> Iterator[Iterator[Member]]:
    if not inner:
        yield members
        return
    for member in members:
        if member.name == inner and member.kind == "file":
            with member.open() as file, tarfile.open(fileobj=file, mode="r|*") as stream:
                yield _tar_members(stream)
            return
    raise DataError(f"{path}: {inner} is not in it")


def _zip_members(archive: zipfile.ZipFile) -> Iterator[Member]:
    for info in archive.infolist():
        mode = info.external_attr >> 16
        kind = "folder" if info.is_dir() else "file"
        if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR):
            kind = "link" if stat.S_ISLNK(mode) else "special file"
        # orig_filename is what the archive says; filename may have been cut at a NUL.
        yield Member(info.orig_filename, kind, lambda info=info: archive.open(info))  # type: ignore[misc]


def _tar_members(stream: tarfile.TarFile) -> Iterator[Member]:
    for info in stream:
        if info.isfile():
            kind = "file"
        elif info.isdir():
            kind = "folder"
        else:
            kind = "link" if info.issym() or info.islnk() else "special file"
        yield Member(info.name, kind, lambda info=info: _open_tar(stream, info))  # type: ignore[misc]


def _open_tar(stream: tarfile.TarFile, info: tarfile.TarInfo) -> IO[bytes]:
    file = stream.extractfile(info)
    if file is None:
        raise DataError(f"{info.name}: not a file")
    return file
