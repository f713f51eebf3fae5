"""Official files: are they what their publisher gave out, and what becomes of them."""

from __future__ import annotations

from pathlib import Path

from steepest.data.download.archive import check_archive
from steepest.data.download.checksum import compute_md5
from steepest.data.download.disk import explain_write_error, format_bytes
from steepest.data.download.effort import Effort
from steepest.data.download.imagenet_devkit import read_validation_folders
from steepest.data.download.unpack import unpack
from steepest.data.holding import Holding, OfficialFile
from steepest.errors import DataError


def find_fault(file: OfficialFile, path: Path, effort: Effort) -> str:
    """Return what is wrong with a copy of an official file; nothing if it is whole.

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
    """Return what a file becomes in the data folder: itself, or the folder taken out of it."""
    return root / (file.name if file.unpacking is None else file.unpacking.target)


def unpack_official(file: OfficialFile, archive: Path, root: Path, effort: Effort) -> None:
    """Take out of an archive what its data set needs, if that is not there yet.

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
    """Return what to fetch where, for a data set that nobody gets without an account."""
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
