"""Archives: their members as streams, and unpacking that cannot leave its folder."""

from __future__ import annotations

import lzma
import os
import shutil
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import IO

from steepest.core.files import SCRATCH_PREFIX
from steepest.core.progress import Progress, SilentProgress
from steepest.data.download.files import (
    check_room,
    count_megabytes,
    create_file,
    format_bytes,
    make_folder,
    rename,
    write_bytes,
)
from steepest.errors import DataError, first_line

_CHUNK_BYTES = 1 << 20
_REFUSED = "refused: remove it and get it from elsewhere"
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
class Limits:
    """Limits on the contents of an archive, against decompression bombs.

    Attributes:
        times: Unpacked size, in sizes of the archive.
        least_bytes: What is allowed in any case.
        members: How many files and folders.
    """

    times: int = 20
    least_bytes: int = 10**6
    members: int = 3_000_000

    def bytes_for(self, archive_bytes: int) -> int:
        """Return how many bytes an archive of this size may give."""
        return max(self.least_bytes, self.times * archive_bytes)


def unpack(
    archive: Path,
    target: Path,
    *,
    folder: str = "",
    inner: str = "",
    nested: bool = False,
    folders: Mapping[str, str] | None = None,
    limits: Limits | None = None,
    progress: Progress | None = None,
) -> int:
    """Unpack a zip or tar archive into a folder that appears only when it is complete.

    Args:
        archive: The archive.
        target: The folder to make; it must not be there yet.
        folder: The folder in the archive whose content is wanted; all of it if empty.
        inner: The name of a tar archive within the archive that is meant instead.
        nested: Whether tar archives in it are unpacked as well, each into a folder.
        folders: The folder of each file by its name, for an archive that does not sort them.
        limits: How much it may hold.
        progress: Where the bytes are shown.

    Returns:
        How many files there are.

    Raises:
        DataError: If it is damaged, names a path outside of ``target``, holds links or more than
            the limits allow, or the disk is full. Nothing is left behind.
    """
    if target.exists():
        raise DataError(f"{target}: already there; remove it first")
    limits = limits or Limits()
    # One name for one target: what a kill left behind is cleared by the next try.
    scratch = target.with_name(SCRATCH_PREFIX + target.name)
    try:
        _remove(scratch)
        make_folder(scratch)
        writer = _Writer(archive, scratch, limits, folders)
        check_room(scratch, archive.stat().st_size)
        with (
            count_megabytes(
                progress or SilentProgress(), f"unpacking {archive.name}", None
            ) as count,
            open_archive(archive, inner) as members,
        ):
            for written_bytes in writer.write(enter_each(members) if nested else members, folder):
                count(written_bytes)
        if not writer.files:
            raise DataError(f"{archive}: no files in {folder or 'it'}")
        rename(scratch, target)
    finally:
        _remove(scratch)
    return writer.files


class _Writer:
    def __init__(
        self, archive: Path, root: Path, limits: Limits, folders: Mapping[str, str] | None
    ) -> None:
        self.files = 0
        self._archive = archive
        self._root = root
        self._limits = limits
        self._folders = folders
        self._allowed_bytes = limits.bytes_for(archive.stat().st_size)
        self._done_bytes = 0

    def write(self, members: Iterator[Member], folder: str) -> Iterator[int]:
        """Write all members of a folder, and yield the bytes of each piece."""
        for number, member in enumerate(members, start=1):
            if number > self._limits.members:
                raise DataError(f"{self._archive}: more than {self._limits.members} members")
            path = self._place(member, folder)
            if path is None:
                continue
            if member.kind == "folder":
                make_folder(path)
            elif member.kind == "file":
                yield from self._write_file(member, path)
                self.files += 1
            else:
                raise DataError(f"{self._archive}: {member.name} is a {member.kind}; {_REFUSED}")

    def _place(self, member: Member, folder: str) -> Path | None:
        """Return where a member goes, None if it is not wanted."""
        name = member.name
        parts = PurePosixPath(name).parts
        odd = name.startswith("/") or ".." in parts or "\\" in name or "\0" in name
        if odd or (parts and ":" in parts[0]):
            raise DataError(f"{self._archive}: {name!r} leads out of the folder; {_REFUSED}")
        start = PurePosixPath(folder).parts
        if parts[: len(start)] != start or len(parts) == len(start):
            return None
        inside = parts[len(start) :]
        if self._folders is None or member.kind == "folder":
            return self._root.joinpath(*inside)
        if inside[-1] not in self._folders:
            raise DataError(f"{self._archive}: the class of {name} is unknown")
        return self._root / self._folders[inside[-1]] / inside[-1]

    def _write_file(self, member: Member, path: Path) -> Iterator[int]:
        make_folder(path.parent)
        if os.path.lexists(path):
            raise DataError(f"{self._archive}: {member.name} is in it twice; {_REFUSED}")
        with member.open() as source, create_file(path) as file:
            while chunk := source.read(_CHUNK_BYTES):
                self._done_bytes += len(chunk)
                if self._done_bytes > self._allowed_bytes:
                    raise DataError(
                        f"{self._archive}: unpacks to more than "
                        f"{format_bytes(self._allowed_bytes)}; {_REFUSED}"
                    )
                write_bytes(path, file, chunk)
                yield len(chunk)


def _remove(scratch: Path) -> None:
    if scratch.exists():
        shutil.rmtree(scratch)


@dataclass(frozen=True)
class Member:
    """One thing in an archive.

    Attributes:
        name: Its path there.
        kind: ``"file"``, ``"folder"``, or what else it is.
        open: Opens a file's bytes; only until the next member is requested.
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
