"""A log of decisions about many labels at once, with person and time."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

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
