"""Files that were replaced by others under the same name after they were labelled."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Sequence

from steepest.labelling.project.consensus import IMPORTED_BY, refresh
from steepest.labelling.project.contents import Budget, Content, is_as_noted, read_content, size_of
from steepest.labelling.project.copies import let_others_follow, mark_copies
from steepest.labelling.project.history import find_image
from steepest.labelling.project.records import Answer
from steepest.labelling.project.settings import Settings
from steepest.labelling.project.source import Source, Stamp
from steepest.labelling.project.store import Store

SAME, SUSPECTED, CHANGED = 0, 1, 2
"""What the store says of an answered file: as it was, touched or copied, another one.

Queries that ask for one of them say ``changed > 0`` as well: only then SQLite takes their index.
"""

_LAST = "SELECT ifnull(max(number), 1) FROM answers"
_KEEP = f"""UPDATE images SET changed = 0, content = NULL, missing = 0, asked_again = ({_LAST})
    WHERE number = ?"""  # noqa: S608
"""What holds is kept. It is about an earlier file all the same, and undo leads back to no other."""


def settle_suspected(store: Store, source: Source, budget: Budget | None = None) -> None:
    """Find out which answered files with another date or size hold something else.

    Only those are read; those beyond the budget are read another time.

    Args:
        store: The project's file.
        source: The location of the samples.
        budget: The limit on reading.
    """
    with store.reading() as connection:
        rows = connection.execute(
            """SELECT number, id, size_bytes, changed_ns, place, content FROM images
            WHERE changed > 0 AND changed = ? AND missing = 0 ORDER BY number""",
            (SUSPECTED,),
        ).fetchall()
    found = []
    for row in rows:
        content, noted = row["content"], Stamp.of_row(row)
        if content is not None and size_of(content) != noted.size_bytes:
            found.append((CHANGED, content, row["number"], *noted))
            continue
        seen = read_content(source, row["id"], budget)
        if seen is not None and seen.stamp == noted:
            state = SAME if content in (None, seen.text) else CHANGED
            found.append((state, content or seen.text, row["number"], *noted))
    if found:
        with store.writing() as connection:
            connection.executemany(
                f"""UPDATE images SET changed = ?, content = ? WHERE number = ?
                AND changed = {SUSPECTED:d}
                AND size_bytes = ? AND changed_ns = ? AND place = ?""",  # noqa: S608
                found,
            )


def note_labelled(
    connection: sqlite3.Connection,
    settings: Settings,
    image: sqlite3.Row,
    answer: Answer,
    seen: Content,
) -> None:
    """Record the content of the file that a person has labelled.

    If others labelled it too, and it is not the file that they saw, it stays a changed one. If
    nobody else did, answers before this one are about an earlier file.

    Args:
        connection: Within a transaction.
        settings: What holds now.
        image: Its row, from before the answer.
        answer: The answer.
        seen: The content of the file.
    """
    number, known = image["number"], image["content"]
    same = image["changed"] == SAME and Stamp.of_row(image) == seen.stamp
    others = connection.execute(
        "SELECT 1 FROM current WHERE image = ? AND annotator NOT IN (?, ?)",
        (number, answer.annotator, IMPORTED_BY),
    ).fetchone()
    mixed = others is not None and not same
    if mixed and known in (None, seen.text):
        return
    # Answers about different files have no file in common: none is the one that they saw.
    content = f"{size_of(known)}:mixed {number}" if mixed else seen.text
    connection.execute(
        """UPDATE images SET content = ?, changed = ?, size_bytes = ?, changed_ns = ?, place = ?
        WHERE number = ?""",
        (content, CHANGED if mixed else SAME, *seen.stamp, number),
    )
    if mixed:
        let_others_follow(connection, settings, number)
        return
    if image["changed"] == CHANGED if known is None else known != seen.text:
        # Imported labels are about the earlier file too.
        connection.execute(
            "DELETE FROM current WHERE image = ? AND answer < ?", (number, answer.number)
        )
        if image["votes"] or image["skips"]:
            connection.execute(
                "UPDATE images SET asked_again = ? WHERE number = ?", (answer.number - 1, number)
            )
        refresh(connection, number, settings)
        let_others_follow(connection, settings, number)


def mark_changed(connection: sqlite3.Connection) -> str:
    """Return what tells the files that changed so far from any others, for a decision on them."""
    rows = connection.execute(
        """SELECT number, size_bytes, changed_ns, place FROM images
        WHERE changed > 0 AND changed = ? ORDER BY number""",
        (CHANGED,),
    )
    told = repr([tuple(row) for row in rows])
    return hashlib.blake2b(told.encode(), digest_size=12).hexdigest()


def ask_again(
    connection: sqlite3.Connection, settings: Settings, samples: Sequence[str] | None = None
) -> list[int]:
    """Ask again about files that changed: their answers stay in the history and hold no longer.

    Args:
        connection: Within a transaction.
        settings: What holds now.
        samples: The samples; None for all.

    Returns:
        The numbers of their images.
    """
    last = connection.execute(_LAST).fetchone()[0]
    images = _list_changed(connection, samples)
    for image in images:
        for table in ("current", "assignments", "opinions"):
            connection.execute(f"DELETE FROM {table} WHERE image = ?", (image,))  # noqa: S608
        connection.execute(
            """UPDATE images SET changed = 0, content = NULL, asked_again = ?, enough = 0
            WHERE number = ?""",
            (last, image),
        )
        refresh(connection, image, settings)
    mark_copies(connection, settings)
    return images


def keep_labels(
    connection: sqlite3.Connection,
    source: Source,
    settings: Settings,
    samples: Sequence[str] | None = None,
) -> list[int]:
    """Keep the answers to changed files as answers about their present content.

    Copies of what was in them before follow them no longer. Files that are gone, or have changed
    again, are left: nobody has seen their content.

    Args:
        connection: Within a transaction.
        source: The location of the samples.
        settings: What holds now.
        samples: The samples; None for all.

    Returns:
        The numbers of their images.
    """
    kept = []
    for image in _list_changed(connection, samples):
        row = connection.execute("SELECT * FROM images WHERE number = ?", (image,)).fetchone()
        if is_as_noted(source, row):
            connection.execute(_KEEP, (image,))
            kept.append(image)
    mark_copies(connection, settings)
    return kept


def _list_changed(connection: sqlite3.Connection, samples: Sequence[str] | None) -> list[int]:
    rows = connection.execute(
        "SELECT number FROM images WHERE changed > 0 AND changed = ?", (CHANGED,)
    )
    numbers = [int(row["number"]) for row in rows]
    if samples is None:
        return numbers
    asked = {find_image(connection, sample)["number"] for sample in samples}
    return [number for number in numbers if number in asked]
