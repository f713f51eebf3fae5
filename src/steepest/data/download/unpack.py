"""Unpack an archive so that nothing gets out of its folder and nothing half-done stays."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from steepest.core.files import SCRATCH_PREFIX
from steepest.core.progress import Progress, SilentProgress
from steepest.data.download.archive import Member, enter_each, open_archive
from steepest.data.download.disk import check_room, format_bytes
from steepest.data.download.megabytes import count_megabytes
from steepest.data.download.writing import create_file, make_folder, rename, write_bytes
from steepest.errors import DataError

_CHUNK_BYTES = 1 << 20
_REFUSED = "refused: remove it and get it from elsewhere"


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
            raise DataError(f"{self._archive}: nobody says which class {name} belongs to")
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
