"""Features on disk, by the digest of their inputs.

One folder holds the rows of one net with one preprocessing. Rows are appended to ``rows.f32``, and
``rows.jsonl`` notes whose they are once they are on the disk. Rows that no note knows of, as a
kill leaves them, are cut off before others are written.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import IO, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from steepest.core.files import write_atomically
from steepest.core.journal import Journal, read_journal
from steepest.core.lock import FileLock
from steepest.errors import InputError, JournalError
from steepest.models.backbones import Backbone

_ABOUT, _NOTES, _ROWS = "about.json", "rows.jsonl", "rows.f32"
_LOCKED = "store"
_FORMAT = 1
_NUMBER_BYTES = 4


class FeatureStore:
    """Rows of one backbone, in their own folder below a common one.

    Args:
        folder: Holds the stores of all backbones.
        backbone: Whose rows these are. Another net, other weights or another preprocessing have
            another store.

    Raises:
        InputError: If the store is damaged, or leads elsewhere.
    """

    def __init__(self, folder: Path, backbone: Backbone) -> None:
        label = "".join(c if c.isalnum() or c in "-." else "-" for c in backbone.name)[:60]
        self.folder = folder
        self.path = folder / f"{label}-{backbone.identity}"
        self._about = {
            "format": _FORMAT,
            "backbone": backbone.name,
            "weights": backbone.weights,
            "preprocessing": backbone.preprocessing,
        }
        for name in (_ABOUT, _NOTES, _ROWS):
            refuse_links(self.path / name, folder.parent)
        self._places: dict[str, int] = {}
        self._width = 0
        self._lock: FileLock | None = None
        self._read()

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, digest: str) -> bool:
        return digest in self._places

    def __enter__(self) -> Self:
        """Hold the folder with all stores, so that rows can be added."""
        self._lock = FileLock(self.folder / _LOCKED, shown=self.folder)
        try:
            self._read()
            if not (self.path / _ABOUT).exists():
                write_atomically(self.path / _ABOUT, json.dumps(self._about, indent=1) + "\n")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._lock is not None:
            self._lock.release()
        self._lock = None

    def add(self, digests: Sequence[str], rows: Tensor) -> None:
        """Keep the rows [N, D] of these contents; they stay, whatever happens afterwards.

        Raises:
            InputError: If the store is not locked, or the rows have another width than those
                before.
        """
        if self._lock is None:
            raise InputError(f"{self.path} is not held: add rows within a `with` block")
        if not len(digests):
            return
        width = rows.shape[1]
        if self._width not in (0, width):
            raise InputError(
                f"{self.path} holds rows of {self._width} features, not of {width}: delete it"
            )
        start = len(self._places)
        data = rows.detach().to(torch.float32).contiguous().numpy().astype("<f4").tobytes()
        with _opened(self.path / _ROWS) as file:
            file.truncate(start * width * _NUMBER_BYTES)
            file.seek(0, os.SEEK_END)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        self._notes.append({"width": width, "digests": list(digests)})
        self._width = width
        self._places.update((digest, start + i) for i, digest in enumerate(digests))

    def rows(self, digests: Iterable[str]) -> Tensor:
        """Return the rows of these contents [N, D]; rows in the order of the file are not copied.

        Raises:
            KeyError: If one is not there.
        """
        places = np.array([self._places[digest] for digest in digests], dtype=np.int64)
        if not len(places):
            return torch.zeros(0, max(1, self._width))
        table: npt.NDArray[np.float32] = np.memmap(
            self.path / _ROWS, dtype="<f4", mode="c", shape=(len(self._places), self._width)
        )
        first, last = int(places[0]), int(places[-1]) + 1
        in_order = last - first == len(places) and bool((np.diff(places) == 1).all())
        return torch.from_numpy(table[first:last] if in_order else table[places])

    def _read(self) -> None:
        notes = self.path / _NOTES
        try:
            if self._lock is None:
                entries, _ = read_journal(notes)
            else:
                self._notes = Journal(notes)
                entries = self._notes.entries
            digests = [digest for entry in entries for digest in entry["digests"]]
            widths = {int(entry["width"]) for entry in entries}
            size = (self.path / _ROWS).stat().st_size if digests else 0
        except (JournalError, OSError, KeyError, TypeError, ValueError) as error:
            raise self._damaged(str(error)) from error
        self._width = max(widths, default=0)
        if len(widths) > 1 or size < len(digests) * self._width * _NUMBER_BYTES:
            raise self._damaged("rows are missing")
        self._places = {digest: i for i, digest in enumerate(digests)}
        if len(self._places) != len(digests):
            raise self._damaged("a row is there twice")

    def _damaged(self, why: str) -> InputError:
        return InputError(
            f"{self.path}: the features in it are damaged ({why}): delete that folder, and they "
            "are computed again"
        )


def _opened(path: Path) -> IO[bytes]:
    """Open a file to write to, made if it is not there."""
    return os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o666), "r+b")


_HIDDEN = ".steepest"
_NAME = "features"


def usual_place(photos: Path) -> Path:
    """Return where the features of a folder of images are kept: within it, out of sight."""
    return photos / _HIDDEN / _NAME


def refuse_links(path: Path, inside: Path) -> None:
    """Refuse a place that leads elsewhere: in a folder of somebody else's it may lead anywhere.

    Args:
        path: The file to be written.
        inside: Parts of the path below this folder are looked at.

    Raises:
        InputError: Naming the link.
    """
    steps = [path, *path.parents]
    for step in steps[: steps.index(inside)]:
        if step.is_symlink():
            raise InputError(
                f"{step} is a link, and features are not written through one: delete it, or name "
                "another folder by --features"
            )
