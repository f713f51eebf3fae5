"""Files that are byte for byte the same: one of them is asked about, and its label is theirs."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from pathlib import Path

from steepest.labelling.project.contents import Budget, note_contents
from steepest.labelling.project.resolve import reopen
from steepest.labelling.project.settings import Settings
from steepest.labelling.project.store import Store

# Files of a size of their own are never read; nor are empty ones, which are no images.
_ALIKE = """SELECT i.number, i.id, i.size_bytes, i.changed_ns FROM images i
    WHERE i.open = 1 AND i.votes = 0 AND i.skips = 0 AND i.content IS NULL AND i.size_bytes > 0
    AND (:among IS NULL OR i.number IN (SELECT value FROM json_each(:among)))
    AND EXISTS (SELECT 1 FROM images o WHERE o.size_bytes = i.size_bytes
        AND o.number <> i.number AND (o.missing = 0 OR o.labels IS NOT NULL))
    ORDER BY i.shuffle LIMIT :most"""
# The label of a file that is gone or changed is still that of what was in it. Without a label, what
# somebody looks at already is asked about, or else the first by name.
_FIRST = """SELECT content, number FROM (
        SELECT content, number, row_number() OVER
            (PARTITION BY content ORDER BY labels IS NULL, votes = 0, number NOT IN
            (SELECT image FROM assignments), id) AS place
        FROM images WHERE content IS NOT NULL AND size_bytes > 0
        AND ((missing = 0 AND unreadable IS NULL) OR labels IS NOT NULL))
    WHERE place = 1"""
_MARK = f"""UPDATE images SET copy_of = first.number FROM ({_FIRST}) AS first
    WHERE images.content = first.content AND images.number <> first.number
    AND images.votes = 0 AND images.skips = 0 AND images.missing = 0
    AND images.unreadable IS NULL
    AND NOT EXISTS (SELECT 1 FROM assignments s WHERE s.image = images.number)"""  # noqa: S608
_MOST = 1 << 40


def find_copies(
    store: Store,
    photos: Path,
    settings: Settings,
    *,
    among: Sequence[int] | None = None,
    budget: Budget | None = None,
) -> None:
    """Read files that have the size of another, and mark those that are copies.

    Args:
        store: The project's file.
        photos: The folder of the samples.
        settings: What holds now.
        among: Numbers of images; None is all.
        budget: What may be read.
    """
    if not settings.ask_copies:
        most = _MOST if budget is None else min(budget.files, _MOST)
        asked = {"among": None if among is None else json.dumps(among), "most": int(most)}
        with store.reading() as connection:
            rows = connection.execute(_ALIKE, asked).fetchall()
        note_contents(store, photos, rows, budget)
    with store.writing() as connection:
        mark_copies(connection, settings)


def mark_copies(connection: sqlite3.Connection, settings: Settings) -> None:
    """Decide anew which images are copies of others, of those whose content is known.

    Copies that have answers of their own, or are being looked at, stand for themselves.

    Args:
        connection: Within a transaction.
        settings: What holds now.
    """
    connection.execute("UPDATE images SET copy_of = NULL WHERE copy_of IS NOT NULL")
    if not settings.ask_copies:
        connection.execute(_MARK)
    reopen(connection, settings.overlap)
