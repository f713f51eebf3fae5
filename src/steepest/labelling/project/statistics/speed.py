"""Labelling speed of each person."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from steepest.labelling.project.history import STANDING
from steepest.labelling.project.project import Project
from steepest.labelling.project.resolve import IMPORTED_BY

_BREAK_SECONDS = 120.0
"""A longer gap between two answers is a break and does not count."""


@dataclass(frozen=True)
class Pace:
    """One person's labelling speed, without breaks.

    Attributes:
        labels: Labels given.
        active_seconds: Time between answers that followed each other closely.
        per_minute: Labels in a minute of that time; None before there is any.
    """

    labels: int
    active_seconds: float
    per_minute: float | None


@dataclass(frozen=True)
class Speed:
    """The labelling speed of all people.

    Attributes:
        total: Of all together.
        annotators: Of each.
    """

    total: Pace
    annotators: dict[str, Pace]


def speed(project: Project) -> Speed:
    """Return labels per minute on the page: a sheet's answers come all at once."""
    with project.store.reading() as connection:
        rows = connection.execute(
            f"""SELECT a.at, a.annotator, a.kind <> 'skip' AS label FROM answers a
            WHERE a.annotator <> ? AND a.round IS NULL AND a.browser NOT LIKE 'accepted:%'
            AND {STANDING} ORDER BY a.at, a.number""",  # noqa: S608
            (IMPORTED_BY,),
        ).fetchall()
    events = [(row["at"], row["annotator"], bool(row["label"])) for row in rows]
    people = sorted({who for _, who, _ in events})
    by_person = {
        person: _pace([(at, label) for at, who, label in events if who == person])
        for person in people
    }
    return Speed(_pace([(at, label) for at, _, label in events]), by_person)


def class_balance(project: Project) -> dict[str, int]:
    """Return how many samples have each class, in the order of the classes."""
    names = project.classes()
    with project.store.reading() as connection:
        rows = connection.execute(
            "SELECT labels, count(*) AS samples FROM images WHERE labels IS NOT NULL "
            "GROUP BY labels"
        ).fetchall()
    counts: Counter[int] = Counter()
    for row in rows:
        for number in json.loads(row["labels"]):
            counts[number] += row["samples"]
    return {name: counts[number] for number, name in enumerate(names)}


def _pace(events: Sequence[tuple[float, bool]]) -> Pace:
    labels = sum(label for _, label in events)
    active, timed = 0.0, 0
    for (before, _), (at, label) in pairwise(events):
        if at - before <= _BREAK_SECONDS:
            active += at - before
            timed += label
    return Pace(labels, active, 60.0 * timed / active if active > 0 else None)
