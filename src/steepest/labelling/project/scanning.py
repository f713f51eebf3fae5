"""The samples of a folder or table, into the store: new, missing, changed and duplicate ones."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from steepest.core.seeds import keyed_uniform
from steepest.errors import DataError
from steepest.labelling.project.changed_files import CHANGED, settle_suspected
from steepest.labelling.project.consensus import reopen
from steepest.labelling.project.contents import Budget, note_answered
from steepest.labelling.project.copies import find_copies, mark_copies
from steepest.labelling.project.settings import Settings
from steepest.labelling.project.source import Found, SampleFolder, Source, Stamp, TextTable
from steepest.labelling.project.store import Store

_AT_ONCE = 2000

# A file that was rewritten may be readable now. One that has answers may be another than the one
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

Kinds = tuple[tuple[str, int], ...]
"""Endings of names with how many files have them, the most frequent first."""


@dataclass(frozen=True)
class Scan:
    """The result of scanning the folder.

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


def check_there(source: Source, store: Store) -> None:
    """Refuse a folder that is away as a whole: its images are not gone one by one.

    Raises:
        DataError: If the folder is missing, or has no image where some were known.
    """
    if not source.is_there():
        what = "folder" if isinstance(source, SampleFolder) else "file"
        raise DataError(f"{source.path}: no such {what}; bring it back")
    if has_samples(source, store.path.parent):
        return
    with store.reading() as connection:
        known = _count(connection, "1")
    if known:
        raise DataError(f"{source.path}: none of its {known} samples is there; bring them back")


def has_samples(source: Source, project: Path) -> bool:
    """Return whether there is any sample, besides the project's own files."""
    return next(source.walk(project.resolve(), [], Counter()), None) is not None


def look_beside(source: Source, project: Path) -> tuple[tuple[str, ...], Kinds]:
    """Return the rest of a folder: refused names, and kinds of other files."""
    refused: list[str] = []
    others: Counter[str] = Counter()
    for _ in source.walk(project.resolve(), refused, others):
        pass
    return tuple(sorted(refused)), tuple(others.most_common())


def scan(store: Store, source: Source, settings: Settings) -> Scan:
    """Bring the store's images up to date with the folder.

    Raises:
        DataError: If the folder is away as a whole; then nothing is changed.
    """
    check_there(source, store)
    refused: list[str] = []
    others: Counter[str] = Counter()
    found = source.walk(store.path.parent.resolve(), refused, others)
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


_QUICK_FILES, _QUICK_BYTES = 200, 64 << 20
"""How much is read while somebody waits for the page; the next training reads the rest."""
_ALIKE_FILES, _ALIKE_BYTES = 2000, 1 << 30
"""How much is read for copies in one training, where all files have the same size."""


def note_quickly(store: Store, source: Source, settings: Settings) -> None:
    """Note the content of answered samples, as far as somebody waits for that, and their copies."""
    note_answered(store, source, _quick_budget())
    with store.writing() as connection:
        mark_copies(connection, settings)


def _quick_budget() -> Budget:
    return Budget(_QUICK_FILES, _QUICK_BYTES)


def look_quickly(store: Store, source: Source, settings: Settings) -> Scan:
    """Bring the store up to date with the folder in a moment.

    Raises:
        DataError: If the folder is away as a whole; then nothing is changed.
    """
    found = scan(store, source, settings)
    settle_suspected(store, source, _quick_budget())
    with store.writing() as connection:
        mark_copies(connection, settings)
        changed = connection.execute(
            "SELECT count(*) FROM images WHERE changed > 0 AND changed = ?", (CHANGED,)
        ).fetchone()[0]
    return replace(found, changed=int(changed))


def look_closely(store: Store, source: Source, settings: Settings) -> None:
    """Bring the store up to date with the folder, reading all that has to be read for it.

    Raises:
        DataError: If the folder is away as a whole; then nothing is changed.
    """
    scan(store, source, settings)
    settle_suspected(store, source)
    note_answered(store, source)
    find_copies(store, source, settings, budget=Budget(_ALIKE_FILES, _ALIKE_BYTES))


_MOST_SAID = 5


def say_refused(names: Sequence[str]) -> str:
    """Name some skipped entries: links that lead elsewhere, pipes, undecodable names."""
    return _first_few([_plain(name) for name in names])


def say_others(kinds: Kinds) -> str:
    """Count other files by the endings of their names."""
    return _first_few([f"{count} {_plain(kind) or 'without ending'}" for kind, count in kinds])


def why_no_samples(source: Source, project: Path) -> str:
    """Describe the contents of a folder without images, such as links.

    Args:
        source: Where samples were looked for.
        project: The folder of the project, which does not count.
    """
    if source.kind == "text":
        what = "in that table" if isinstance(source, TextTable) else "in .txt files in there"
        return f"no text {what}"
    refused, others = look_beside(source, project)
    if refused:
        return (
            f"no images in there but links that lead elsewhere, or what cannot be opened "
            f"({say_refused(refused)}): name the folder that links lead to, or copy the files"
        )
    if others:
        return f"no images in there but other files ({say_others(others)}): convert them to .jpg"
    return "no images in there"


def _plain(name: str) -> str:
    """Return a name as it may be printed: one may hold a line break, or steer the terminal."""
    return name if name.isprintable() else repr(name)


def _first_few(words: Sequence[str]) -> str:
    return ", ".join(words[:_MOST_SAID]) + (", …" if len(words) > _MOST_SAID else "")
