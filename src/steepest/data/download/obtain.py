"""Get a data set of the catalogue into the data folder, from its publisher or from a disk."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from steepest.core.files import SCRATCH_PREFIX
from steepest.core.lock import FileLock, InUseError
from steepest.core.web import check_url
from steepest.data.base import load
from steepest.data.download.bring_in import bring_in
from steepest.data.download.effort import Effort
from steepest.data.download.fetch import Wanted, fetch
from steepest.data.download.official import (
    explain_by_hand,
    find_fault,
    place_of,
    remove_file,
    unpack_official,
)
from steepest.data.holding import Holding, OfficialFile, find_full_layout
from steepest.errors import DataError, InputError, RunFolderError


@dataclass(frozen=True)
class Obtained:
    """State of a data set in the data folder.

    Attributes:
        paths: What the data set is read from; empty if something is still missing.
        new: Whether anything was added.
        missing: Names of official files that are still to be had.
    """

    paths: tuple[Path, ...]
    new: bool
    missing: tuple[str, ...] = ()


def obtain(
    holding: Holding,
    root: Path,
    *,
    url: str | None = None,
    source: Path | None = None,
    effort: Effort | None = None,
) -> Obtained:
    """Make sure that a data set is in the data folder, whole.

    Args:
        holding: Its entry of the catalogue.
        root: The data folder.
        url: Another address of its file; one that ends in ``/`` is the folder of all its files.
        source: A file or folder of this machine to bring in instead of downloading.
        effort: How the work is shown.

    Raises:
        DataError: If it cannot be had, or what there is cannot be used.
        RunFolderError: If another process is at it in the same folder.
        InputError: If the address cannot be used.
    """
    if not holding.layouts:
        return Obtained((), new=False)
    effort = effort or Effort()
    try:
        lock = _lock(holding, root)
    except InUseError:
        raise
    except RunFolderError:
        # Nothing can be added there, as to a disk for reading alone, and nothing may be missing.
        if not _is_whole(holding, root, effort):
            raise
        return _describe(holding, root, new=False)
    with lock:
        if _is_whole(holding, root, effort):
            return _describe(holding, root, new=False)
        read = [path for layout in holding.layouts if not layout.options for path in layout.paths]
        begun = any((root / path).is_dir() for path in read)
        if source is not None:
            bring_in(holding, source, root, effort)
        else:
            _download(holding, root, url, effort)
        if begun:  # What was there is kept, and nobody has looked into it.
            _is_whole(holding, root, effort)
        return _describe(holding, root, new=True)


def _lock(holding: Holding, root: Path) -> FileLock:
    try:
        return FileLock(root / f"{SCRATCH_PREFIX}{holding.name}")
    except InUseError as error:
        raise InUseError(
            f"{root}: another process is getting {holding.name} there; wait until it is done"
        ) from error


def _describe(holding: Holding, root: Path, *, new: bool) -> Obtained:
    layout = find_full_layout(holding, root)
    if layout is not None:
        return Obtained(tuple(root / path for path in layout.paths), new)
    missing = tuple(file.name for file in holding.files if not place_of(file, root).exists())
    return Obtained((), new, missing)


def _is_whole(holding: Holding, root: Path, effort: Effort) -> bool:
    layout = find_full_layout(holding, root)
    if layout is None:
        return False
    files = {file.name: file for file in holding.files}
    if set(layout.paths) <= files.keys():
        return all(_is_official(files[path], root / path, effort) for path in layout.paths)
    try:
        load(holding.name, root)
    except DataError as error:
        # Its usual remedy is the command that is running.
        fault = error.__cause__ if isinstance(error.__cause__, DataError) else error
        raise DataError(
            f"{fault}; {root / layout.paths[0]} is in the way: move it elsewhere and run the same "
            "command again"
        ) from error
    return True


def _is_official(file: OfficialFile, path: Path, effort: Effort) -> bool:
    """Say whether a file in the data folder is there and what it should be."""
    if not path.is_file():
        return False
    fault = find_fault(file, path, effort)
    if fault:
        effort.tell(f"{path}: {fault}; it will be replaced")
    return not fault


def _download(holding: Holding, root: Path, url: str | None, effort: Effort) -> None:
    if url is None and not all(file.url for file in holding.files):
        raise DataError(explain_by_hand(holding))
    if url is not None:
        check_url(url)
    if url is not None and not url.endswith("/") and len(holding.files) > 1:
        names = " and ".join(file.name for file in holding.files)
        raise InputError(
            f"{holding.name} consists of {names}: give the address of the folder that holds them, "
            "ending in /"
        )
    for file in holding.files:
        address = file.url if url is None else url + file.name * url.endswith("/")
        if file.unpacking is None or not place_of(file, root).is_dir():
            _download_file(file, address, root, effort)


def _download_file(file: OfficialFile, address: str, root: Path, effort: Effort) -> None:
    path = root / file.name
    if not _is_official(file, path, effort):
        md5 = fetch(
            address,
            path,
            Wanted(file.md5, file.size_bytes),
            patience=effort.patience,
            progress=effort.progress,
            tell=effort.tell,
        )
        if file.md5 is None:
            effort.tell(f"{file.name}: MD5 sum {md5}; there is no official one to compare it with")
            fault = find_fault(file, path, effort)
            if fault:
                remove_file(path)
                raise DataError(f"{address}: {fault}")
    if file.unpacking is not None:
        unpack_official(file, path, root, effort)
        # Its reader reads what was taken out, so the archive would only fill the disk.
        remove_file(path)
