"""Digests of file contents, compared when a file seems to have changed."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from steepest.errors import DataError, InputError
from steepest.labelling.project.source import Source, Stamp
from steepest.labelling.project.store import Store

_DIGEST_BYTES = 16
_AT_ONCE = 200


@dataclass(frozen=True)
class Content:
    """The digest of a file's contents when it was read.

    Attributes:
        text: Equal for equal bytes alone; begins with the size.
        stamp: The file's stamp.
    """

    text: str
    stamp: Stamp


@dataclass
class Budget:
    """Bytes that may still be read while somebody waits.

    Attributes:
        files: Number of files.
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


def read_content(source: Source, sample: str, budget: Budget | None = None) -> Content | None:
    """Return the content of a sample's file; None if it cannot be read now, or is too large.

    Args:
        source: The location of the samples.
        sample: The sample.
        budget: The limit on reading; None for no limit.
    """
    try:
        before = source.stamp(sample)
        if budget is not None and not budget.spend(before.size_bytes):
            return None
        with source.open(sample) as file:
            digest = hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=_DIGEST_BYTES))
        after = source.stamp(sample)
    except (DataError, OSError, MemoryError):
        return None
    if before != after:
        return None  # it is being written
    return Content(f"{after.size_bytes}:{digest.hexdigest()}", after)


def read_if_new(source: Source, image: sqlite3.Row, budget: Budget) -> Content | None:
    """Return the content of an image's file, unless it is known.

    Args:
        source: The location of the samples.
        image: Its row.
        budget: What may be read, unless the file is another one than was noted: then what was noted
            must not stay.
    """
    if image["content"] is None or image["changed"]:
        return read_content(source, image["id"], budget)
    return None if is_as_noted(source, image) else read_content(source, image["id"])


def check_shown(source: Source, sample: str, shown: str | None) -> None:
    """Refuse an answer if the file has been replaced since it was shown.

    Args:
        source: The location of the samples.
        sample: The sample.
        shown: The result of ``Source.mark`` when it was shown; None is not compared.

    Raises:
        InputError: If so. A file that is gone by now was shown all the same.
    """
    if shown is not None and source.mark(sample) not in (shown, None):
        raise InputError(f"{sample} was replaced while it was shown; look at the new file")


def is_as_noted(source: Source, image: sqlite3.Row) -> bool:
    """Decide whether the disk says of an image's file what was noted; not if it is gone."""
    try:
        return source.stamp(image["id"]) == Stamp.of_row(image)
    except DataError:
        return False


def note_contents(
    store: Store, source: Source, rows: Iterable[sqlite3.Row], budget: Budget | None = None
) -> None:
    """Record unknown file contents; files that changed meanwhile are left.

    Args:
        store: The project's file.
        source: The location of the samples.
        rows: With number and id of images.
        budget: The limit on reading.
    """
    found: list[tuple[str | int, ...]] = []
    for row in rows:
        seen = read_content(source, row["id"], budget)
        if seen is not None:
            found.append((seen.text, row["number"], *seen.stamp))
        if len(found) >= _AT_ONCE:
            _write(store, found)
            found = []
    _write(store, found)


def note_answered(store: Store, source: Source, budget: Budget | None = None) -> None:
    """Record the content of every answered file, so that a later replacement is noticed.

    Each is read once. A file whose size alone is as before, and whose content was never noted, is
    taken to be the same.

    Args:
        store: The project's file.
        source: The location of the samples.
        budget: The limit on reading.
    """
    with store.reading() as connection:
        rows = connection.execute(
            """SELECT number, id FROM images WHERE content IS NULL
            AND (votes > 0 OR skips > 0) AND changed = 0 AND missing = 0"""
        ).fetchall()
    note_contents(store, source, rows, budget)


def _write(store: Store, found: Sequence[tuple[str | int, ...]]) -> None:
    if not found:
        return
    with store.writing() as connection:
        connection.executemany(
            """UPDATE images SET content = ? WHERE number = ? AND content IS NULL
            AND size_bytes = ? AND changed_ns = ? AND place = ?""",
            found,
        )
