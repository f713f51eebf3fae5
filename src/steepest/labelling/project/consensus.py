"""The label that follows from all answers about an image, and whether it needs more."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Sequence

from steepest.labelling.project.settings import Settings

IMPORTED_BY = "import"
"""The annotator of labels imported from a file; such an image waits for no more answers.

What a person says about it holds instead: otherwise one person alone could never correct a file.
"""

_OPEN = """missing = 0 AND unreadable IS NULL AND imported = 0 AND copy_of IS NULL
    AND votes < CASE WHEN enough > 0 THEN min(enough, :overlap) ELSE :overlap END"""


def refresh(connection: sqlite3.Connection, image: int, settings: Settings) -> None:
    """Update the values derived from an image's answers after they changed."""
    rows = connection.execute(
        """SELECT c.annotator, a.labels FROM current c JOIN answers a ON a.number = c.answer
        WHERE c.image = ?""",
        (image,),
    ).fetchall()
    given = [row for row in rows if row["labels"] is not None]
    people = [row["labels"] for row in given if row["annotator"] != IMPORTED_BY]
    votes = people or [row["labels"] for row in given]
    imported = len(people) < len(given)
    labels = decide(votes, multi_label=settings.multi_label)
    # What has its own answers is asked about by itself; what has too few, as all others are.
    # Without answers, nothing is about the file that was there before.
    connection.execute(
        """UPDATE images SET votes = :votes, skips = :skips, imported = :imported,
        labels = :labels, disputed = :disputed, copy_of = CASE WHEN :answers = 0 THEN copy_of END,
        content = CASE WHEN :answers > 0 OR changed = 0 THEN content END,
        changed = CASE WHEN :answers > 0 THEN changed ELSE 0 END,
        enough = CASE WHEN :votes >= enough THEN enough ELSE 0 END WHERE number = :image""",
        {
            "votes": len(votes),
            "skips": len(rows) - len(given),
            "imported": int(imported),
            "labels": labels,
            "disputed": int(bool(votes) and labels is None),
            "answers": len(rows),
            "image": image,
        },
    )
    reopen(connection, settings.overlap, image)


def reopen(connection: sqlite3.Connection, overlap: int, image: int | None = None) -> None:
    """Decide again which images wait for answers; None is all of them."""
    only = "" if image is None else " AND number = :image"
    connection.execute(
        f"UPDATE images SET open = ({_OPEN}) WHERE open <> ({_OPEN}){only}",  # noqa: S608
        {"overlap": overlap, "image": image},
    )


def change_overlap(connection: sqlite3.Connection, before: int, after: int) -> None:
    """Follow another number of people: images that were done by the old one stay done."""
    if after > before:
        connection.execute(
            "UPDATE images SET enough = :before WHERE enough = 0 AND votes >= :before",
            {"before": before},
        )
    reopen(connection, after)


def ask_more(connection: sqlite3.Connection, overlap: int) -> int:
    """Ask more people about images that were done when fewer were asked; return how many."""
    asked = "SELECT count(*) FROM images WHERE open = 1"
    before = connection.execute(asked).fetchone()[0]
    connection.execute("UPDATE images SET enough = 0 WHERE enough > 0 AND enough < ?", (overlap,))
    reopen(connection, overlap)
    return int(connection.execute(asked).fetchone()[0] - before)


def decide(votes: Sequence[str], *, multi_label: bool) -> str | None:
    """Return the label that most votes are for; None if they are split evenly.

    Where an image may have several classes, each class is decided separately.
    """
    if not votes:
        return None
    # A program's labels may be no classes.
    if not multi_label or not all(vote.startswith("[") for vote in votes):
        ranked = Counter(votes).most_common(2)
        tied = len(ranked) > 1 and ranked[0][1] == ranked[1][1]
        return None if tied else ranked[0][0]
    counts = Counter(number for vote in votes for number in json.loads(vote))
    if any(2 * count == len(votes) for count in counts.values()):
        return None
    return json.dumps(sorted(n for n, count in counts.items() if 2 * count > len(votes)))
