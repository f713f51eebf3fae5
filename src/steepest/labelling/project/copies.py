"""Byte-identical samples: one is labelled, and the others take its label."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence

from steepest.labelling.project.consensus import reopen
from steepest.labelling.project.contents import Budget, note_contents
from steepest.labelling.project.settings import Settings
from steepest.labelling.project.source import Source
from steepest.labelling.project.store import Store

_HERE = "missing = 0 AND changed < 2"
"""Whether the label of an image is about the file that is there now."""

SPLIT_CONTENTS = f"""SELECT content FROM images WHERE content IS NOT NULL AND labels IS NOT NULL
    AND {_HERE} GROUP BY content HAVING count(DISTINCT labels) > 1"""  # noqa: S608
"""What is in files whose copies people have labelled differently; others follow neither."""

DIFFERING = f"labels IS NOT NULL AND {_HERE} AND content IN ({SPLIT_CONTENTS})"
"""Whether an image has another label than a copy of it."""

SHOWN_BY = """CASE WHEN i.missing = 0 THEN i.id ELSE (SELECT min(c.id) FROM images c
    WHERE c.copy_of = i.number AND c.missing = 0 AND c.unreadable IS NULL) END"""
"""The file that shows what the label of an image ``i`` is about.

That of a renamed file stays with the name that is gone. NULL if no file shows it.
"""

LEARNABLE = f"""SELECT i.number, {SHOWN_BY} AS id, i.labels, i.held_out, i.content FROM images i
    WHERE i.labels IS NOT NULL AND i.unreadable IS NULL"""  # noqa: S608
"""Labels with what shows them, for models."""

# The label of a file that is gone or changed is still that of what was in it. Without a label, what
# somebody looks at already is asked about, or else the first by name.
_FIRST = f"""SELECT content, number FROM (
        SELECT content, number, row_number() OVER
            (PARTITION BY content ORDER BY labels IS NULL, NOT ({_HERE}), votes = 0, number NOT IN
            (SELECT image FROM assignments), id) AS place
        FROM images WHERE content IS NOT NULL AND size_bytes > 0
        AND ((missing = 0 AND unreadable IS NULL) OR labels IS NOT NULL))
    WHERE place = 1"""  # noqa: S608
_FREE_TO_FOLLOW = """images.votes = 0 AND images.skips = 0
    AND NOT EXISTS (SELECT 1 FROM assignments s WHERE s.image = images.number)"""
_MARK = f"""UPDATE images SET copy_of = first.number FROM ({_FIRST}) AS first
    WHERE images.content = first.content AND images.number <> first.number
    AND images.missing = 0 AND images.unreadable IS NULL AND {_FREE_TO_FOLLOW}"""  # noqa: S608


def mark_copies(connection: sqlite3.Connection, settings: Settings) -> None:
    """Decide again which images are copies of others, of those whose content is known.

    Samples with their own answers, or being labelled, are not treated as copies.

    Args:
        connection: Within a transaction.
        settings: The current settings.
    """
    connection.execute("UPDATE images SET copy_of = NULL WHERE copy_of IS NOT NULL")
    if not settings.ask_copies:
        connection.execute(_MARK)
    reopen(connection, settings.overlap)


def let_others_follow(connection: sqlite3.Connection, settings: Settings, image: int) -> None:
    """Find another image to label for the copies of one that cannot be labelled now."""
    if connection.execute("SELECT 1 FROM images WHERE copy_of = ?", (image,)).fetchone():
        mark_copies(connection, settings)


def is_split(connection: sqlite3.Connection, content: str | None) -> bool:
    """Decide whether people have labelled files with the same bytes differently."""
    rows = connection.execute(
        f"""SELECT count(DISTINCT labels) FROM images
        WHERE content = ? AND labels IS NOT NULL AND {_HERE}""",  # noqa: S608
        (content,),
    )
    return bool(rows.fetchone()[0] > 1)


def followed_label(
    connection: sqlite3.Connection, settings: Settings, image: sqlite3.Row
) -> str | None:
    """Return the label that an image without answers has from a copy; None if there is none."""
    if settings.ask_copies or image["content"] is None or is_split(connection, image["content"]):
        return None
    found = connection.execute(
        f"""SELECT o.labels FROM images JOIN images o ON o.content = images.content
        AND o.number <> images.number AND o.labels IS NOT NULL
        WHERE images.number = ? AND {_FREE_TO_FOLLOW}
        ORDER BY o.number IS NOT images.copy_of, o.missing OR o.changed = 2, o.id""",  # noqa: S608
        (image["number"],),
    ).fetchone()
    return None if found is None else str(found["labels"])


# Files of a size of their own are never read; nor are empty ones, which are no images.
_ALIKE = """SELECT i.number, i.id FROM images i
    WHERE i.open = 1 AND i.votes = 0 AND i.skips = 0 AND i.content IS NULL AND i.size_bytes > 0
    AND (:among IS NULL OR i.number IN (SELECT value FROM json_each(:among)))
    AND EXISTS (SELECT 1 FROM images o WHERE o.size_bytes = i.size_bytes
        AND o.number <> i.number AND (o.missing = 0 OR o.labels IS NOT NULL))
    ORDER BY i.shuffle LIMIT :most"""
_MOST = 1 << 40


def find_copies(
    store: Store,
    source: Source,
    settings: Settings,
    *,
    among: Sequence[int] | None = None,
    budget: Budget | None = None,
) -> None:
    """Read files that have the size of another, and mark those that are copies.

    Args:
        store: The project's file.
        source: The location of the samples.
        settings: The current settings.
        among: Numbers of images; None is all.
        budget: What may be read.
    """
    if not settings.ask_copies:
        most = _MOST if budget is None else min(budget.files, _MOST)
        asked = {"among": None if among is None else json.dumps(among), "most": int(most)}
        with store.reading() as connection:
            rows = connection.execute(_ALIKE, asked).fetchall()
        note_contents(store, source, rows, budget)
    with store.writing() as connection:
        mark_copies(connection, settings)
