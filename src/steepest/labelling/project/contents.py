"""What is in a file, as a short text: noted once, compared when a file seems to have changed."""

from __future__ import annotations

import hashlib
import os
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from steepest.errors import DataError, InputError
from steepest.labelling.project.pictures import locate
from steepest.labelling.project.stamps import Stamp
from steepest.labelling.project.store import Store

_DIGEST_BYTES = 16
_AT_ONCE = 200


@dataclass(frozen=True)
class Content:
    """What was in a file when it was read.

    Attributes:
        text: Equal for equal bytes alone; begins with the size.
        stamp: What the disk said of the file.
    """

    text: str
    stamp: Stamp


@dataclass
class Budget:
    """How much may still be read, where somebody waits for it.

    Attributes:
        files: So many files.
        size_bytes: So much of them.
    """

    files: float = float("inf")
    size_bytes: float = float("inf")

    def spend(self, size_bytes: int) -> bool:
        """Take a file's share; False if too little is left."""
        if self.files < 1 or self.size_bytes < size_bytes:
            return False
        self.files -= 1
        self.size_bytes -= size_bytes
        return True


def size_of(content: str) -> int:
    """Return the size in bytes that a content had."""
    return int(content.partition(":")[0])


def read_content(photos: Path, sample: str, budget: Budget | None = None) -> Content | None:
    """Return what is in a sample's file; None if it cannot be read now, or is too large.

    Args:
        photos: The folder of the samples.
        sample: The sample.
        budget: What may be read; None is anything.
    """
    try:
        with locate(photos, sample).open("rb") as file:
            before = os.fstat(file.fileno())
            if budget is not None and not budget.spend(before.st_size):
                return None
            digest = hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=_DIGEST_BYTES))
            after = os.fstat(file.fileno())
    except (DataError, OSError, MemoryError):
        return None
    if Stamp.of(before) != Stamp.of(after):
        return None  # it is being written
    return Content(f"{after.st_size}:{digest.hexdigest()}", Stamp.of(after))


def read_if_new(photos: Path, image: sqlite3.Row, budget: Budget) -> Content | None:
    """Return what is in an image's file, unless that is known.

    Args:
        photos: The folder of the samples.
        image: Its row.
        budget: What may be read, unless the file is another one than was noted: then what was noted
            must not stay.
    """
    if image["content"] is None or image["changed"]:
        return read_content(photos, image["id"], budget)
    return None if is_as_noted(photos, image) else read_content(photos, image["id"])


def mark_file(photos: Path, sample: str) -> str | None:
    """Return what tells a sample's file from a later one of its name; None if it is gone.

    Args:
        photos: The folder of the samples.
        sample: The sample.
    """
    try:
        status = (photos / sample).stat()
    except (OSError, ValueError):
        return None
    # Without the file's number: some shares number files anew all the time, and an answer would be
    # refused for that.
    return f"{status.st_mtime_ns:x}-{status.st_size:x}-{status.st_ctime_ns:x}"


def check_shown(photos: Path, sample: str, shown: str | None) -> None:
    """Refuse an answer to what was shown if another file has its name by now.

    Args:
        photos: The folder of the samples.
        sample: The sample.
        shown: What ``mark_file`` said when it was shown; None is not compared.

    Raises:
        InputError: If so. A file that is gone by now was shown all the same.
    """
    if shown is not None and mark_file(photos, sample) not in (shown, None):
        raise InputError(f"{sample} was replaced while it was shown; look at the new file")


def is_as_noted(photos: Path, image: sqlite3.Row) -> bool:
    """Decide whether the disk says of an image's file what was noted; not if it is gone."""
    try:
        status = locate(photos, image["id"]).stat()
    except (DataError, OSError):
        return False
    return Stamp.of(status) == Stamp.of_row(image)


def note_contents(
    store: Store, photos: Path, rows: Iterable[sqlite3.Row], budget: Budget | None = None
) -> None:
    """Note what is in files of which that is not known; those that changed meanwhile are left.

    Args:
        store: The project's file.
        photos: The folder of the samples.
        rows: With number and id of images.
        budget: What may be read.
    """
    found: list[tuple[str | int, ...]] = []
    for row in rows:
        seen = read_content(photos, row["id"], budget)
        if seen is not None:
            found.append((seen.text, row["number"], *seen.stamp))
        if len(found) >= _AT_ONCE:
            _write(store, found)
            found = []
    _write(store, found)


def note_answered(store: Store, photos: Path, budget: Budget | None = None) -> None:
    """Note what is in every file that was answered, so that a later one under its name shows.

    Each is read once. A file whose size alone is as before, and whose content was never noted, is
    taken to be the same.

    Args:
        store: The project's file.
        photos: The folder of the samples.
        budget: What may be read.
    """
    with store.reading() as connection:
        rows = connection.execute(
            """SELECT number, id FROM images WHERE content IS NULL
            AND (votes > 0 OR skips > 0) AND changed = 0 AND missing = 0"""
        ).fetchall()
    note_contents(store, photos, rows, budget)


def _write(store: Store, found: Sequence[tuple[str | int, ...]]) -> None:
    if not found:
        return
    with store.writing() as connection:
        connection.executemany(
            """UPDATE images SET content = ? WHERE number = ? AND content IS NULL
            AND size_bytes = ? AND changed_ns = ? AND place = ?""",
            found,
        )
