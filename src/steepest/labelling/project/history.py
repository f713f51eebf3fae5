"""Past answers and decisions, and the label that people agree on."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from steepest.errors import InputError
from steepest.labelling.project.classes import ClassList
from steepest.labelling.project.copies import DIFFERING, SPLIT_CONTENTS, is_split
from steepest.labelling.project.records import Answer, Resolved, SampleState

State = Literal[
    "labelled",
    "skipped",
    "disputed",
    "unanswered",
    "open",
    "unreadable",
    "missing",
    "changed",
    "copies",
    "differing",
]

CONDITIONS: dict[str, str] = {
    "labelled": "labels IS NOT NULL",
    "skipped": "skips > 0 AND votes = 0",
    "disputed": "disputed = 1",
    "unanswered": "votes = 0 AND skips = 0",
    "open": "open = 1",
    "unreadable": "unreadable IS NOT NULL",
    "missing": "missing = 1",
    "changed": "changed = 2",
    "copies": "copy_of IS NOT NULL",
    "differing": DIFFERING,
}
"""The meaning of each state in the table of images.

Every image is in one of the first four; the others say more about some of them.
"""

STANDING = """a.kind <> 'undo'
    AND NOT EXISTS (SELECT 1 FROM answers u WHERE u.undoes = a.number)"""
"""Whether an answer ``a`` was never taken back."""


def list_answers(
    connection: sqlite3.Connection,
    classes: ClassList,
    *,
    annotator: str | None = None,
    sample: str | None = None,
    limit: int = 50,
    before: int | None = None,
) -> list[Answer]:
    """Return answers that stand, newest first; see ``Queue.history``."""
    image = None if sample is None else find_image(connection, sample)["number"]
    rows = connection.execute(
        f"""SELECT a.*, i.id, i.asked_again FROM answers a
        JOIN images i ON i.number = a.image
        WHERE {STANDING} AND (:who IS NULL OR a.annotator = :who)
        AND (:image IS NULL OR a.image = :image)
        AND (:before IS NULL OR a.number < :before)
        ORDER BY a.number DESC LIMIT :limit""",  # noqa: S608
        {"who": annotator, "image": image, "before": before, "limit": limit},
    ).fetchall()
    return [to_answer(row, classes) for row in rows]


def resolve_label(connection: sqlite3.Connection, classes: ClassList, sample: str) -> Resolved:
    """Return all people's answers about a sample, combined.

    Raises:
        InputError: If there is no such sample.
    """
    row = find_image(connection, sample)
    if row["copy_of"] is None:
        return Resolved(classes.decode(row["labels"]), row["votes"], bool(row["disputed"]))
    original = connection.execute(
        "SELECT id, labels, content FROM images WHERE number = ?", (row["copy_of"],)
    ).fetchone()
    split = is_split(connection, original["content"])
    return Resolved(None if split else classes.decode(original["labels"]), 0, split, original["id"])


def find_answer(
    connection: sqlite3.Connection, classes: ClassList, annotator: str, sample: str
) -> Answer | None:
    """Return one person's current answer about a sample.

    Raises:
        InputError: If there is no such sample.
    """
    row = connection.execute(
        """SELECT a.*, i.id, i.asked_again FROM current c
        JOIN answers a ON a.number = c.answer JOIN images i ON i.number = c.image
        WHERE c.image = ? AND c.annotator = ?""",
        (find_image(connection, sample)["number"], annotator),
    ).fetchone()
    return None if row is None else to_answer(row, classes)


def list_samples(
    connection: sqlite3.Connection,
    classes: ClassList,
    *,
    label: str | None = None,
    state: State | None = None,
    limit: int = 100,
    offset: int = 0,
) -> list[SampleState]:
    """Return samples in the order of their ids; see ``Queue.samples``."""
    if state is not None and state not in CONDITIONS:
        raise InputError(f"state {state!r} is not known: use {', '.join(CONDITIONS)}")
    condition = CONDITIONS[state] if state else "1"
    # Copies stand side by side.
    order = "images.content, images.id" if state == "differing" else "images.id"
    number = None if label is None else classes.number_of(label)
    rows = connection.execute(
        f"""SELECT images.*, o.id AS original,
        CASE WHEN o.content NOT IN ({SPLIT_CONTENTS}) THEN o.labels END AS followed
        FROM images LEFT JOIN images o ON o.number = images.copy_of
        WHERE images.number IN (SELECT number FROM images WHERE {condition}
        AND (:label IS NULL OR EXISTS
        (SELECT 1 FROM json_each(ifnull(labels, '[]')) WHERE value = :label))
        ORDER BY {order} LIMIT :limit OFFSET :offset)
        ORDER BY {order}""",  # noqa: S608
        {"label": number, "limit": limit, "offset": offset},
    ).fetchall()
    return [_to_state(row, classes) for row in rows]


def find_image(connection: sqlite3.Connection, sample: str) -> sqlite3.Row:
    """Return an image's row.

    Raises:
        InputError: If there is no such sample.
    """
    try:
        row = connection.execute("SELECT * FROM images WHERE id = ?", (sample,)).fetchone()
    except UnicodeEncodeError:
        row = None
    if row is None:
        raise InputError(
            f"no sample {sample!r} in this project: no such file, or one that the next training "
            "will find"
        )
    found: sqlite3.Row = row
    return found


def _to_state(row: sqlite3.Row, classes: ClassList) -> SampleState:
    return SampleState(
        row["id"],
        classes.decode(row["labels"]),
        row["votes"],
        row["skips"],
        bool(row["disputed"]),
        row["unreadable"],
        bool(row["missing"]),
        row["original"],
        classes.decode(row["followed"]),
    )


def to_answer(row: sqlite3.Row, classes: ClassList) -> Answer:
    """Turn a row of answers, with the image's id, into a record."""
    return Answer(
        number=row["number"],
        at=row["at"],
        annotator=row["annotator"],
        sample=row["id"],
        kind=row["kind"],
        labels=classes.decode(row["labels"]),
        version=row["version"],
        predicted=classes.decode(row["predicted"]),
        probability=row["probability"],
        batch=row["batch"],
        undoes=row["undoes"],
        earlier_file=row["number"] <= row["asked_again"],
    )


DecisionKind = Literal[
    "ask again", "keep labels", "add class", "rename class", "accept predictions", "undo accepted"
]


@dataclass(frozen=True)
class Decision:
    """One person's decision about many labels.

    Attributes:
        at: When, in seconds since 1970.
        annotator: Who; empty if that is not known.
        kind: To ask again about files that changed, to keep their labels, about a class, or to
            accept predictions or take that back.
        samples: How many samples it is about; 0 for classes.
        detail: The sample or class, or the first of them.
    """

    at: float
    annotator: str
    kind: DecisionKind
    samples: int
    detail: str


def note_decision(
    connection: sqlite3.Connection,
    given_by: tuple[str, float],
    kind: DecisionKind,
    *,
    images: Sequence[int] = (),
    detail: str = "",
) -> int:
    """Note a decision; return its number.

    Args:
        connection: Within the transaction that carries it out.
        given_by: Who, and when.
        kind: What.
        images: The numbers of the images that it is about.
        detail: The class that it is about.
    """
    number = connection.execute(
        "INSERT INTO decisions (annotator, at, kind, detail) VALUES (?, ?, ?, ?)",
        (*given_by, kind, detail),
    ).lastrowid
    connection.executemany(
        "INSERT INTO decided VALUES (?, ?)", ((image, number) for image in images)
    )
    return int(number or 0)


def list_decisions(
    connection: sqlite3.Connection, *, image: int | None = None, limit: int = 20
) -> list[Decision]:
    """Return decisions, newest first.

    Args:
        connection: To the project's file.
        image: Only those about this one; None is all.
        limit: How many at most.
    """
    rows = connection.execute(
        """SELECT d.at, d.annotator, d.kind, count(i.id) AS samples,
            ifnull(min(i.id), d.detail) AS detail
        FROM decisions d LEFT JOIN decided o ON o.decision = d.number
        LEFT JOIN images i ON i.number = o.image
        WHERE :image IS NULL OR d.number IN (SELECT decision FROM decided WHERE image = :image)
        GROUP BY d.number ORDER BY d.number DESC LIMIT :limit""",
        {"image": image, "limit": limit},
    )
    return [Decision(**dict(row)) for row in rows]
