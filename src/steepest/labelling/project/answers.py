"""Writes answers: one event for each, and its consequences."""

from __future__ import annotations

import sqlite3
import unicodedata
from dataclasses import dataclass
from typing import NamedTuple

from steepest.errors import InputError
from steepest.labelling.project.consensus import IMPORTED_BY, refresh
from steepest.labelling.project.records import Kind, predicted
from steepest.labelling.project.settings import Settings

_MOST_LETTERS = 64


@dataclass(frozen=True)
class Giver:
    """The person who answers.

    Attributes:
        annotator: The person or program.
        browser: Where; empty if that is not known.
    """

    annotator: str
    browser: str = ""


class Seen(NamedTuple):
    """The version of an image that was shown when it was answered.

    Attributes:
        batch: The batch that it was given out in.
        version: The model that was asked.
        predicted: Its prediction, in the format of the store.
        probability: How likely that was in its eyes.
    """

    batch: int | None
    version: int | None
    predicted: str | None
    probability: float | None


def add_answer(
    connection: sqlite3.Connection,
    giver: Giver,
    image: sqlite3.Row,
    labels: str | None,
    settings: Settings,
    now: float,
    seen: Seen | None = None,
) -> int:
    """Write one answer and its consequences; return its number.

    Args:
        connection: Within a transaction.
        giver: The person who answers.
        image: The row of the image that it is about.
        labels: The classes, as ``ClassList.encode`` returns them; None is a skip.
        settings: The current settings.
        now: The time.
        seen: What was shown; None is what was given out with the image.
    """
    number, annotator = image["number"], giver.annotator
    before = connection.execute(
        """SELECT a.number, a.kind FROM current c JOIN answers a ON a.number = c.answer
        WHERE c.image = ? AND c.annotator = ?""",
        (number, annotator),
    ).fetchone()
    # Who answers after a file corrects or confirms it.
    first = (before is None or before["kind"] == "skip") and not image["imported"]
    kind: Kind = "skip" if labels is None else "label" if first else "relabel"
    batch, version, said, probability = seen or _shown(connection, number, annotator, settings)
    added = connection.execute(
        """INSERT INTO answers (at, annotator, image, kind, labels, version, predicted,
        probability, batch, previous, browser) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)""",
        (
            *(now, annotator, number, kind, labels, version, said, probability),
            *(batch, None if before is None else before["number"], giver.browser),
        ),
    ).lastrowid
    set_current(connection, number, annotator, added)
    connection.execute(
        "DELETE FROM assignments WHERE image = ? AND annotator = ?", (number, annotator)
    )
    refresh(connection, number, settings)
    return int(added or 0)


def check_annotator(name: str) -> None:
    """Refuse names that cannot be a person's.

    Raises:
        InputError: Saying why.
    """
    if not name or name != name.strip() or len(name) > _MOST_LETTERS or not name.isprintable():
        raise InputError(f"annotator {name!r}: a name has 1 to {_MOST_LETTERS} printable letters")
    if name == IMPORTED_BY:
        raise InputError(f"{IMPORTED_BY!r} stands for labels from files; choose another name")


def find_annotator(connection: sqlite3.Connection, name: str) -> str:
    """Return a person's name as the project has it already, in capitals or not; else as given."""
    rows = connection.execute("SELECT DISTINCT annotator FROM answers ORDER BY annotator")
    known = [row["annotator"] for row in rows]
    if name in known:
        return name
    folded = _fold(name)
    return next((other for other in known if _fold(other) == folded), name)


def _fold(name: str) -> str:
    return " ".join(unicodedata.normalize("NFC", name).casefold().split())


def _shown(connection: sqlite3.Connection, image: int, annotator: str, settings: Settings) -> Seen:
    """Return the version of an image that was shown."""
    row = connection.execute(
        """SELECT s.batch, b.version, p.predicted FROM assignments s
        JOIN batches b ON b.number = s.batch
        LEFT JOIN picks p ON p.batch = s.batch AND p.image = s.image
        WHERE s.image = ? AND s.annotator = ?""",
        (image, annotator),
    ).fetchone()
    if row is None:
        return Seen(None, None, None, None)
    text = row["predicted"] or "[]"
    return Seen(row["batch"], row["version"], *predicted(text, multi_label=settings.multi_label))


def set_current(
    connection: sqlite3.Connection, image: int, annotator: str, answer: int | None
) -> None:
    """Make an answer a person's current one about an image."""
    connection.execute(
        "INSERT OR REPLACE INTO current VALUES (?, ?, ?)", (image, annotator, answer)
    )


def hold_first(
    connection: sqlite3.Connection,
    held: tuple[int, str, str],
    batch: int | None,
    now: float,
    expires: float,
) -> None:
    """Give an image to a person at a browser before all else that is held there."""
    image, annotator, browser = held
    first = connection.execute(
        "SELECT ifnull(min(turn), 1) - 1 FROM assignments WHERE annotator = ? AND browser = ?",
        (annotator, browser),
    ).fetchone()[0]
    connection.execute(
        "INSERT OR REPLACE INTO assignments VALUES (?, ?, ?, ?, ?, ?, ?)",
        (image, annotator, now, expires, first, batch, browser),
    )
