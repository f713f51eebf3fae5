"""The gain in accuracy from the last doubling of the labels, as measured."""

from __future__ import annotations

import math
import sqlite3
from dataclasses import dataclass

from steepest.labelling.project.picking import VALIDATION
from steepest.labelling.project.predictions import predicted
from steepest.labelling.project.project import Project
from steepest.labelling.project.statistics.curve import Z_95

_LEAST_TESTED = 10


@dataclass(frozen=True)
class Doubling:
    """The latest model beside one that had half of its labels or fewer.

    Attributes:
        labels_before: What the earlier model was trained on.
        labels: What the latest was trained on.
        tested: Samples held out that both were tested on.
        better: Those that only the latest gets right.
        worse: Those that only the earlier one got right.
        gain: By how much the share of right ones rose.
        low: Lower end of the 95 % interval.
        high: Upper end.
    """

    labels_before: int
    labels: int
    tested: int
    better: int
    worse: int
    gain: float
    low: float
    high: float


def last_doubling(project: Project) -> Doubling | None:
    """Compare the latest model with one of half the labels, on what both were tested on.

    The same samples make chance smaller than two shares of different ones would.

    Returns:
        None before there are two such models, or if they have too few tests in common.
    """
    done = [t for t in project.trainings() if t.version is not None and t.labels]
    if not done:
        return None
    latest = done[-1]
    earlier = [t for t in done if 2 * t.labels <= latest.labels and t.validation >= _LEAST_TESTED]
    if not earlier:
        return None
    before = max(earlier, key=lambda t: (t.labels, t.number))
    with project.store.reading() as connection:
        rows = connection.execute(
            """SELECT a.probabilities AS earlier, b.probabilities AS later, i.labels
            FROM opinions a JOIN opinions b ON b.image = a.image
            JOIN images i ON i.number = a.image
            WHERE a.version = ? AND b.version = ? AND a.source = ? AND b.source = ?
            AND i.labels IS NOT NULL""",
            (before.version, latest.version, VALIDATION, VALIDATION),
        ).fetchall()
    if len(rows) < _LEAST_TESTED:
        return None
    several = project.settings.multi_label
    right = [[_is_right(row, which, several) for which in ("earlier", "later")] for row in rows]
    better, worse = right.count([False, True]), right.count([True, False])
    ends = paired_interval(better, worse, len(rows))
    return Doubling(before.labels, latest.labels, len(rows), better, worse, *ends)


def paired_interval(better: int, worse: int, total: int) -> tuple[float, float, float]:
    """Return the difference of two shares of the same samples, and its 95 % interval.

    Half a sample is added to each of the four cases, after Agresti and Min, so that few samples
    promise no certainty.
    """
    size = total + 2
    middle = (better - worse) / size
    spread = math.sqrt(max(0.0, (better + worse + 1) / size - middle**2) / size)
    low, high = max(-1.0, middle - Z_95 * spread), min(1.0, middle + Z_95 * spread)
    return (better - worse) / total, low, high


def _is_right(row: sqlite3.Row, which: str, several: bool) -> bool:
    return bool(predicted(row[which], multi_label=several)[0] == row["labels"])
