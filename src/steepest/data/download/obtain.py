"""Obtaining a data set of the catalogue: from its publisher, or from files on this machine."""

from __future__ import annotations

import io
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from steepest.core.files import SCRATCH_PREFIX, expand_home
from steepest.core.http_requests import check_url
from steepest.core.lock import FileLock, InUseError
from steepest.data.catalogue import Holding, Layout, OfficialFile, find_full_layout
from steepest.data.download.fetch import Wanted, fetch
from steepest.data.download.files import (
    Effort,
    compute_md5,
    explain_write_error,
    format_bytes,
    place,
)
from steepest.data.download.unpack import check_archive, open_archive, unpack
from steepest.data.loading import load
from steepest.errors import DataError, InputError, RunFolderError

_TRUTH = "data/ILSVRC2012_validation_ground_truth.txt"
_CLASSES = "data/meta.mat"
_FOLDER = re.compile(r"n\d{8}")
_IMAGE = "ILSVRC2012_val_{:08d}.JPEG"


@dataclass(frozen=True)
class Obtained:
    """State of a data set in the data folder.

    Attributes:
        paths: The files of the data set; empty if something is still missing.
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
        if begun:  # What was there is kept, and no one has looked into it.
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
    """Return whether a file in the data folder is complete."""
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


def find_fault(file: OfficialFile, path: Path, effort: Effort) -> str:
    """Return the fault of a copy of an official file; nothing if it is intact.

    Raises:
        DataError: If it cannot be read.
    """
    size_bytes = path.stat().st_size
    if file.size_bytes is not None and size_bytes != file.size_bytes:
        return f"{size_bytes} bytes instead of {file.size_bytes}"
    if file.md5 is not None:
        md5 = compute_md5(path, effort.progress)
        return "" if md5 == file.md5 else f"its MD5 sum is {md5} instead of {file.md5}"
    try:
        if file.unpacking is not None:
            check_archive(path, file.unpacking.inner)
    except DataError as error:
        return str(error).removeprefix(f"{path}: ")
    return ""


def place_of(file: OfficialFile, root: Path) -> Path:
    """Return the path of a file in the data folder: the file itself, or the unpacked folder."""
    return root / (file.name if file.unpacking is None else file.unpacking.target)


def unpack_official(file: OfficialFile, archive: Path, root: Path, effort: Effort) -> None:
    """Unpack the required files of an archive, unless they exist.

    Raises:
        DataError: If it is damaged, or the disk is full.
    """
    wanted = file.unpacking
    if wanted is None or place_of(file, root).is_dir():
        return
    folders = None
    if wanted.sorted_by:
        if not (root / wanted.sorted_by).is_file():
            raise DataError(
                f"{archive}: {wanted.sorted_by} is needed to sort it; get that first, or give a "
                "folder that holds both"
            )
        folders = read_validation_folders(root / wanted.sorted_by)
    unpack(
        archive,
        place_of(file, root),
        folder=wanted.folder,
        inner=wanted.inner,
        nested=wanted.nested,
        folders=folders,
        progress=effort.progress,
    )


def remove_file(path: Path) -> None:
    """Remove a file that is not needed any more.

    Raises:
        DataError: If that is not possible.
    """
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise explain_write_error(path, error) from error


def explain_by_hand(holding: Holding) -> str:
    """Return instructions for a data set that requires an account."""
    wanted = []
    for file in holding.files:
        known = [] if file.size_bytes is None else [format_bytes(file.size_bytes)]
        known += [] if file.md5 is None else [f"MD5 {file.md5}"]
        wanted.append(file.name + (f" ({', '.join(known)})" if known else ""))
    return (
        f"{holding.name} must be fetched by hand, because {holding.site} asks for an account: "
        f"sign in there, download {' and '.join(wanted)} into one folder, and run: "
        f"steepest data get {holding.name} --from FOLDER"
    )


def bring_in(holding: Holding, source: Path, root: Path, effort: Effort) -> None:
    """Check a file or folder, then link, copy or unpack it into the data folder.

    Args:
        holding: The data set.
        source: An official file, a folder that holds some, or a copy that its reader can read.
        root: The data folder.
        effort: How the work is shown.

    Raises:
        DataError: If it is not the data set, is damaged, or the disk is full.
    """
    try:
        source = expand_home(source).resolve()
    except (OSError, RuntimeError) as error:
        raise DataError(f"{source}: a broken link; give the files themselves") from error
    if source.is_file():
        _bring_in_file(_recognise(holding, source), source, root, effort)
    elif source.is_dir():
        _bring_in_folder(holding, source, root, effort)
    else:
        raise DataError(f"{source}: no such file or folder; give what was downloaded")


def _bring_in_folder(holding: Holding, source: Path, root: Path, effort: Effort) -> None:
    found = [file for file in holding.files if (source / file.name).is_file()]
    copy = _find_copy(holding, source)
    if copy is not None:
        base, layout = copy
        load(holding.name, base, dict(layout.options))
        for path in layout.paths:
            if not (root / path).exists():
                place(base / path, root / path, effort.progress)
    elif found:
        for file in found:
            _bring_in_file(file, source / file.name, root, effort)
    else:
        looked = [" and ".join(layout.paths) for layout in holding.layouts]
        names = " or ".join(dict.fromkeys([*looked, *(file.name for file in holding.files)]))
        raise DataError(f"{source}: no files of {holding.name} in it; looked for {names}")


def _find_copy(holding: Holding, source: Path) -> tuple[Path, Layout] | None:
    """Return the folder and the paths of a copy that is not just official files.

    The source may be the folder that holds the copy, or a folder of the copy itself.
    """
    files = {file.name for file in holding.files}
    for base in (source, *source.parents):
        for layout in holding.layouts:
            meant = base == source or source in [base / path for path in layout.paths]
            if meant and layout.is_in(base) and not set(layout.paths) <= files:
                return base, layout
    return None


def _recognise(holding: Holding, source: Path) -> OfficialFile:
    """Return which official file this is: by its name, or else by its size."""
    size_bytes = source.stat().st_size
    named = [file for file in holding.files if file.name == source.name]
    sized = [file for file in holding.files if file.size_bytes == size_bytes]
    if named or sized or len(holding.files) == 1:
        return (named + sized + list(holding.files))[0]
    names = " and ".join(file.name for file in holding.files)
    raise DataError(f"{source}: not a file of {holding.name}, which consists of {names}")


def _bring_in_file(file: OfficialFile, source: Path, root: Path, effort: Effort) -> None:
    fault = find_fault(file, source, effort)
    if fault:
        raise DataError(f"{source}: {fault}, so it is not the official {file.name}; get it again")
    if file.unpacking is not None:
        unpack_official(file, source, root, effort)
    elif source != place_of(file, root).resolve():
        place(source, place_of(file, root), effort.progress)


def read_validation_folders(path: Path) -> dict[str, str]:
    """Return the class's folder of each validation image by its name.

    Args:
        path: The kit as downloaded.

    Raises:
        DataError: If it is damaged or has another layout.
    """
    found: dict[str, bytes] = {}
    with open_archive(path) as members:
        for member in members:
            for name in (_TRUTH, _CLASSES):
                if member.name.endswith(f"/{name}") and member.kind == "file":
                    with member.open() as file:
                        found[name] = file.read()
    if len(found) != 2:
        raise DataError(f"{path}: {_TRUTH} or {_CLASSES} is not in it; get it again")
    folders = _read_classes(found[_CLASSES], path)
    try:
        numbers = [int(line) for line in found[_TRUTH].split()]
        return {_IMAGE.format(i): folders[n] for i, n in enumerate(numbers, start=1)}
    except (ValueError, KeyError) as error:
        raise DataError(f"{path}: {_TRUTH} names an unknown class; get it again") from error


def _read_classes(data: bytes, path: Path) -> dict[int, str]:
    """Return the folder of each class by its number in the kit."""
    try:
        from scipy.io import loadmat
    except ImportError as error:
        raise DataError(f"{path}: scipy is needed to read it (pip install scipy)") from error
    try:
        synsets: Any = loadmat(io.BytesIO(data), squeeze_me=True)["synsets"]
        leaves = synsets[synsets["num_children"] == 0]
        names = [str(name) for name in leaves["WNID"]]
        numbers = [int(number) for number in leaves["ILSVRC2012_ID"]]
    except Exception as error:  # damaged bytes make the reader raise almost anything
        raise DataError(f"{path}: {_CLASSES} cannot be read; get it again") from error
    for name in names:
        if not _FOLDER.fullmatch(name):  # it becomes a path
            raise DataError(f"{path}: {_CLASSES} has a class {name!r}; get it again")
    return dict(zip(numbers, names, strict=True))
