"""The image files of a labelled tree, a million of them in a few megabytes."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from steepest.errors import DataError


@dataclass(frozen=True, eq=False)
class FileTable:
    """Files by row, in the order of their folders and, within one, of their names.

    Names are kept as bytes behind one another, not as a million objects: worker processes share
    arrays, while objects would be copied for each of them.

    Attributes:
        root: The folder above.
        folders: Folders under it [F].
        folder_of: The folder of each file [N].
        ends: Where each file's name stops among the names [N].
        names: The names, relative to their folders.
    """

    root: str
    folders: tuple[str, ...]
    folder_of: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64]
    names: npt.NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.ends)

    def name(self, row: int) -> str:
        """Return a file's path below the root, with forward slashes."""
        start = int(self.ends[row - 1]) if row else 0
        name = os.fsdecode(self.names[start : int(self.ends[row])].tobytes())
        return f"{self.folders[int(self.folder_of[row])]}/{name}"

    def path(self, row: int) -> Path:
        """Return where a file is."""
        return Path(self.root, self.name(row))


def list_files(root: Path, folders: Sequence[str], suffixes: tuple[str, ...]) -> FileTable:
    """List the files of some folders, and of the folders in them.

    Hidden files are left out, and so are links to folders inside: they might lead round in a
    circle.

    Args:
        root: The folder above.
        folders: Names of folders in it, which may be links.
        suffixes: How names must end, in lower case.

    Raises:
        DataError: If a folder cannot be listed, or holds something else than files.
    """
    names, ends, owners = bytearray(), list[npt.NDArray[np.int64]](), list[int]()
    for folder in folders:
        encoded = [os.fsencode(name) for name in sorted(_scan(root / folder, suffixes))]
        lengths = np.array([len(name) for name in encoded], dtype=np.int64)
        ends.append(len(names) + np.cumsum(lengths))
        owners.append(len(encoded))
        names += b"".join(encoded)
    return FileTable(
        root=str(root),
        folders=tuple(folders),
        folder_of=np.repeat(np.arange(len(folders), dtype=np.int64), owners),
        ends=np.concatenate([np.zeros(0, dtype=np.int64), *ends]),
        names=np.frombuffer(bytes(names), dtype=np.uint8),
    )


def list_folders(root: Path) -> list[str]:
    """Return the names of the folders in a folder, sorted, hidden ones left out.

    Raises:
        DataError: If it cannot be listed.
    """
    try:
        with os.scandir(root) as entries:
            return sorted(e.name for e in entries if not e.name.startswith(".") and e.is_dir())
    except OSError as error:
        raise DataError(f"{root}: cannot be listed ({error.strerror or error})") from error


def _scan(folder: Path, suffixes: tuple[str, ...], prefix: str = "") -> Iterator[str]:
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                name = entry.name
                if name.startswith("."):
                    continue
                if name.lower().endswith(suffixes):
                    # The kind of an entry comes with the listing: nothing is asked of the disk.
                    if not entry.is_file():
                        raise DataError(f"{entry.path}: not a file; remove it")
                    yield prefix + name
                elif entry.is_dir(follow_symlinks=False):
                    yield from _scan(Path(entry.path), suffixes, f"{prefix}{name}/")
    except OSError as error:
        raise DataError(f"{folder}: cannot be listed ({error.strerror or error})") from error
