"""Files that were replaced by others under the same name after they were labelled."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path

from steepest.labelling.project.contents import Budget, Content, read_content, size_of
from steepest.labelling.project.history import find_image
from steepest.labelling.project.resolve import IMPORTED_BY, refresh, reopen
from steepest.labelling.project.settings import Settings
from steepest.labelling.project.store import Store

SAME, SUSPECTED, CHANGED = 0, 1, 2
"""What the store says of an answered file: as it was, touched or copied, another one."""


def settle_suspected(store: Store, photos: Path, budget: Budget | None = None) -> None:
    """Find out which answered files with another date or size hold something else.

    Only those are read. What the budget leaves is looked at another time.

    Args:
        store: The project's file.
        photos: The folder of the samples.
        budget: What may be read.
    """
    with store.reading() as connection:
        rows = connection.execute(
            """SELECT number, id, size_bytes, changed_ns, content FROM images
            WHERE changed > 0 AND changed = ? AND missing = 0 ORDER BY number""",
            (SUSPECTED,),
        ).fetchall()
    found = []
    for row in rows:
        content, noted = row["content"], (row["size_bytes"], row["changed_ns"])
        if content is not None and size_of(content) != noted[0]:
            found.append((CHANGED, content, row["number"], *noted))
            continue
        seen = read_content(photos, row["id"], budget)
        if seen is not None and (seen.size_bytes, seen.changed_ns) == noted:
            state = SAME if content in (None, seen.text) else CHANGED
            found.append((state, content or seen.text, row["number"], *noted))
    if found:
        with store.writing() as connection:
            connection.executemany(
                f"""UPDATE images SET changed = ?, content = ? WHERE number = ?
                AND changed = {SUSPECTED:d} AND size_bytes = ? AND changed_ns = ?""",  # noqa: S608
                found,
            )


def note_labelled(
    connection: sqlite3.Connection, image: sqlite3.Row, annotator: str, seen: Content
) -> None:
    """Note what is in the file that a person has labelled.

    If others labelled it too, and it is not the file that they saw, it stays a changed one.

    Args:
        connection: Within a transaction.
        image: Its row, from before the answer.
        annotator: Who.
        seen: What is in the file.
    """
    noted = (image["size_bytes"], image["changed_ns"])
    same = image["changed"] == SAME and noted == (seen.size_bytes, seen.changed_ns)
    others = connection.execute(
        "SELECT 1 FROM current WHERE image = ? AND annotator NOT IN (?, ?)",
        (image["number"], annotator, IMPORTED_BY),
    ).fetchone()
    if same or others is None:
        connection.execute(
            """UPDATE images SET content = ?, changed = 0, size_bytes = ?, changed_ns = ?
            WHERE number = ?""",
            (seen.text, seen.size_bytes, seen.changed_ns, image["number"]),
        )


def ask_again(
    connection: sqlite3.Connection, settings: Settings, samples: Sequence[str] | None = None
) -> int:
    """Ask again about files that changed: their answers stay in the history and hold no longer.

    Args:
        connection: Within a transaction.
        settings: What holds now.
        samples: Which of them; None is all.

    Returns:
        How many.
    """
    last = connection.execute("SELECT ifnull(max(number), 1) FROM answers").fetchone()[0]
    images = _list_changed(connection, samples)
    for image in images:
        for table in ("current", "assignments", "opinions"):
            connection.execute(f"DELETE FROM {table} WHERE image = ?", (image,))  # noqa: S608
        connection.execute(
            """UPDATE images SET changed = 0, content = NULL, asked_again = ?, enough = 0
            WHERE number = ?""",
            (last, image),
        )
        connection.execute("UPDATE images SET copy_of = NULL WHERE copy_of = ?", (image,))
        refresh(connection, image, overlap=settings.overlap, multi_label=settings.multi_label)
    reopen(connection, settings.overlap)
    return len(images)


def keep_labels(connection: sqlite3.Connection, samples: Sequence[str] | None = None) -> int:
    """Let the answers to files that changed hold for what is in them now.

    Args:
        connection: Within a transaction.
        samples: Which of them; None is all.

    Returns:
        How many.
    """
    images = _list_changed(connection, samples)
    connection.executemany(
        "UPDATE images SET changed = 0, content = NULL WHERE number = ?",
        [(image,) for image in images],
    )
    return len(images)


def _list_changed(connection: sqlite3.Connection, samples: Sequence[str] | None) -> list[int]:
    rows = connection.execute(
        "SELECT number FROM images WHERE changed > 0 AND changed = ?", (CHANGED,)
    )
    numbers = [int(row["number"]) for row in rows]
    if samples is None:
        return numbers
    asked = {find_image(connection, sample)["number"] for sample in samples}
    return [number for number in numbers if number in asked]
