"""The images of a folder and its subfolders, into the store and not into memory."""

from __future__ import annotations

import json
import os
import sqlite3
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from steepest.core.seeds import keyed_uniform
from steepest.data.folder import SUFFIXES
from steepest.errors import DataError
from steepest.labelling.project.resolve import reopen
from steepest.labelling.project.settings import Settings
from steepest.labelling.project.stamps import Stamp
from steepest.labelling.project.store import Store

VOLUME_SUFFIXES = frozenset({".npy", ".npz", ".mrc"})
"""The names' endings of arrays and volumes that are shown as pictures."""

_KNOWN = SUFFIXES | VOLUME_SUFFIXES
_AT_ONCE = 2000

# A file that was written anew may be readable now. One that has answers may be another than the one
# they are about: without a note of what was in that, another size alone says so. Files that only a
# sheet has named so far have a size below 0.
_RENEW = """UPDATE images SET unreadable = NULL, copy_of = NULL,
    changed = CASE WHEN (votes = 0 AND skips = 0) OR size_bytes < 0 THEN 0
        WHEN content IS NULL AND (size_bytes <> :size OR changed = 2) THEN 2 ELSE 1 END,
    content = CASE WHEN votes > 0 OR skips > 0 THEN content END,
    size_bytes = :size, changed_ns = :at, place = :place WHERE id = :id"""

# Earlier versions did not note it, and what was labelled then may have been exchanged since.
_PLACE = """UPDATE images SET place = :place,
    changed = CASE WHEN changed = 0 AND (votes > 0 OR skips > 0) THEN 1 ELSE changed END
    WHERE id = :id"""

Found = tuple[str, Stamp]
"""A relative path, and what the disk says of the file."""

Kinds = tuple[tuple[str, int], ...]
"""Endings of names with how many files have them, the most frequent first."""


@dataclass(frozen=True)
class Scan:
    """What a look at the folder found.

    Attributes:
        added: Images that are new.
        missing: Images that are gone since the last look.
        back: Images that were missing and are there again.
        refused: Links out of the folder or to folders, and names that no file can hold.
        total: Images that are there.
        others: Other files.
        changed: Labelled images whose files hold something else now, as far as is known.
    """

    added: int
    missing: int
    back: int
    refused: tuple[str, ...]
    total: int
    others: Kinds = ()
    changed: int = 0


def is_sample_name(name: str) -> bool:
    """Decide by its name whether a file is shown as a sample."""
    return os.path.splitext(name)[1].lower() in _KNOWN  # noqa: PTH122 - much faster


def check_there(photos: Path, store: Store) -> None:
    """Refuse a folder that is away as a whole: its images are not gone one by one.

    Raises:
        DataError: If there is no such folder, or no image in it where some were known.
    """
    if not os.path.isdir(photos):  # noqa: PTH112 - never raises
        raise DataError(f"{photos}: no such folder; bring it back")
    if has_samples(photos, store.path.parent):
        return
    with store.reading() as connection:
        known = _count(connection, "1")
    if known:
        raise DataError(f"{photos}: none of its {known} images is there; bring them back")


def has_samples(photos: Path, project: Path) -> bool:
    """Decide whether there is any sample in a folder, besides the project's own pictures."""
    return next(_walk(photos, project.resolve(), [], Counter()), None) is not None


def look_beside(photos: Path, project: Path) -> tuple[tuple[str, ...], Kinds]:
    """Return what else is in a folder: names that are refused, and kinds of other files."""
    refused: list[str] = []
    others: Counter[str] = Counter()
    for _ in _walk(photos, project.resolve(), refused, others):
        pass
    return tuple(sorted(refused)), tuple(others.most_common())


def scan(store: Store, photos: Path, settings: Settings) -> Scan:
    """Bring the store's images up to date with the folder.

    Raises:
        DataError: If the folder is away as a whole; then nothing is changed.
    """
    check_there(photos, store)
    refused: list[str] = []
    others: Counter[str] = Counter()
    found = _walk(photos, store.path.parent.resolve(), refused, others)
    with store.writing() as connection:
        turn = int(connection.execute("SELECT ifnull(max(seen), 0) + 1 FROM images").fetchone()[0])
        before = int(connection.execute("SELECT count(*) FROM images").fetchone()[0])
        was_missing = _count(connection, "missing = 1")
    while rows := list(islice(found, _AT_ONCE)):
        with store.writing() as connection:
            _note(connection, rows, turn, settings)
    with store.writing() as connection:
        total = int(connection.execute("SELECT count(*) FROM images").fetchone()[0])
        back = was_missing - _count(connection, f"missing = 1 AND seen < {turn}")
        missing = _count(connection, f"missing = 0 AND seen < {turn}")
        connection.execute("UPDATE images SET missing = 1, open = 0 WHERE seen < ?", (turn,))
        connection.execute("UPDATE images SET missing = 0 WHERE seen >= ? AND missing = 1", (turn,))
        reopen(connection, settings.overlap)
        there = _count(connection, "missing = 0")
    names, kinds = tuple(sorted(refused)), tuple(others.most_common())
    return Scan(total - before, missing, back, names, there, kinds)


def _note(connection: sqlite3.Connection, rows: list[Found], turn: int, settings: Settings) -> None:
    given = {"ids": json.dumps([row[0] for row in rows]), "turn": turn}
    known = {
        row["id"]: Stamp.of_row(row)
        for row in connection.execute(
            """SELECT id, size_bytes, changed_ns, place FROM images
            WHERE id IN (SELECT value FROM json_each(:ids))""",
            given,
        )
    }
    _add(connection, [row for row in rows if row[0] not in known], turn, settings)
    for name, stamp in rows:
        noted = known.get(name, stamp)
        if noted != stamp:
            size, at, place = stamp
            now = {"id": name, "size": size, "at": at, "place": place}
            connection.execute(_PLACE if noted == (size, at, "") else _RENEW, now)
    # Another process may be looking too, and what it has seen stays seen.
    connection.execute(
        """UPDATE images SET seen = :turn WHERE seen < :turn
        AND id IN (SELECT value FROM json_each(:ids))""",
        given,
    )


def _add(connection: sqlite3.Connection, rows: list[Found], turn: int, settings: Settings) -> None:
    if not rows:
        return
    ids = [row[0] for row in rows]
    shuffle = keyed_uniform(settings.seed, "labelling order", ids)[:, 0]
    chance = keyed_uniform(settings.seed, "validation", ids)[:, 0]
    held_out = chance < settings.validation_share
    connection.executemany(
        """INSERT OR IGNORE INTO images
        (id, size_bytes, changed_ns, place, seen, held_out, shuffle)
        VALUES (?, ?, ?, ?, ?, ?, ?)""",
        (
            (name, *stamp, turn, int(out), float(turn_in_line))
            for (name, stamp), out, turn_in_line in zip(rows, held_out, shuffle, strict=True)
        ),
    )


def _count(connection: sqlite3.Connection, condition: str) -> int:
    return int(connection.execute(f"SELECT count(*) FROM images WHERE {condition}").fetchone()[0])  # noqa: S608


def _walk(photos: Path, project: Path, refused: list[str], others: Counter[str]) -> Iterator[Found]:
    """Yield image files; hidden ones, and links that lead elsewhere, are left out."""
    inside = photos.resolve()
    # The project's own pictures must not become samples.
    own = f"{project.relative_to(inside).as_posix()}/" if project.is_relative_to(inside) else None
    waiting = [""]
    while waiting:
        folder = waiting.pop()
        try:
            entries = os.scandir(photos / folder)
        except OSError:
            refused.append(folder)
            continue
        with entries:
            for entry in entries:
                name = f"{folder}{entry.name}"
                if entry.name.startswith("."):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    if f"{name}/" != own:
                        waiting.append(f"{name}/")
                elif is_sample_name(entry.name):
                    found = _look(entry, name, inside)
                    if found is None:
                        refused.append(name)
                    else:
                        yield found
                elif os.path.isdir(entry.path):  # noqa: PTH112 - a link; never raises
                    refused.append(name)
                else:
                    others[os.path.splitext(entry.name)[1].lower()] += 1  # noqa: PTH122


def _look(entry: os.DirEntry[str], name: str, inside: Path) -> Found | None:
    try:
        name.encode()
        if entry.is_symlink() and not Path(entry.path).resolve().is_relative_to(inside):
            return None
        if not entry.is_file():
            return None
        status = entry.stat()
    except (OSError, RuntimeError, UnicodeEncodeError):
        return None
    return name, Stamp.of(status)
