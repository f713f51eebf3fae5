"""Batches of picks: samples to learn from and to test on, and the picks in reserve."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass

from steepest.labelling.project.consensus import IMPORTED_BY

VALIDATION = "validation"
"""The recorded source of random draws that are never trained on."""


@dataclass(frozen=True)
class Candidate:
    """An image that may be picked.

    Attributes:
        image: Its number in the store.
        score: Its score by the strategy; None for random draws.
        strategy: The method that picked it.
        predicted: The model's prediction, in the format of the store.
    """

    image: int
    score: float | None
    strategy: str
    predicted: str = "[]"


def interleave(
    chosen: Sequence[Candidate], drawn: Sequence[Candidate], share: float
) -> list[Candidate]:
    """Mix both kinds evenly, so that every part of a batch has its share of random draws."""
    total = len(chosen) + len(drawn)
    mixed: list[Candidate] = []
    learn, test = list(chosen), list(drawn)
    for place in range(total):
        turn = int((place + 1) * share) > int(place * share)
        source = test if (turn and test) or not learn else learn
        mixed.append(source.pop(0))
    return mixed


def split_sizes(total: int, share: float) -> tuple[int, int]:
    """Return how many of the picks to choose, and how many to draw at random."""
    drawn = int(total * share)
    return total - drawn, drawn


def list_candidates(
    connection: sqlite3.Connection, *, held_out: bool, limit: int = -1
) -> list[tuple[int, str]]:
    """Return numbers and ids of images that no one has labelled or skipped, in random order."""
    rows = connection.execute(
        """SELECT number, id FROM images WHERE open = 1 AND skips = 0 AND votes = 0
        AND held_out = ? ORDER BY shuffle LIMIT ?""",
        (int(held_out), limit),
    )
    return [(row["number"], row["id"]) for row in rows]


def write_batch(
    connection: sqlite3.Connection,
    picks: Sequence[Candidate],
    *,
    size: int,
    strategy: str,
    version: int | None,
    fingerprint: str,
    now: float,
) -> int:
    """Make picks the batch that is given out next.

    Images that were labelled in the meantime are left out. Where fewer are left than make a batch,
    the next training is due after as many answers; where none is left, after those of a batch.
    """
    number = connection.execute("SELECT ifnull(max(number), 0) + 1 FROM batches").fetchone()[0]
    fresh = [
        pick
        for pick in picks
        if connection.execute(
            "SELECT open = 1 AND votes = 0 FROM images WHERE number = ?", (pick.image,)
        ).fetchone()[0]
    ]
    connection.execute(
        "INSERT INTO batches VALUES (?, ?, ?, ?, ?, ?)",
        (number, now, strategy, version, fingerprint, min(size, len(fresh)) or size),
    )
    connection.executemany(
        "INSERT INTO picks VALUES (?, ?, ?, ?, ?, ?)",
        (
            (number, rank, p.image, p.score, p.strategy, p.predicted)
            for rank, p in enumerate(fresh, start=1)
        ),
    )
    return int(number)


MOST = 1000
"""Picks in reserve at most; scoring more would make trainings longer, and reserves larger still."""

_MORE = 1.5
"""Trainings get longer with the labels, and some picks are answered before they are given out."""

_LAST_TWO = """SELECT requested_at, finished_at FROM trainings
    WHERE status IN ('running', 'done') ORDER BY number DESC LIMIT 2"""
# Of an image that several people label, one pick is used up.
_ANSWERED = """SELECT count(DISTINCT image) FROM answers WHERE kind IN ('label', 'skip')
    AND annotator <> ? AND at > ? AND at <= ?"""


def size_reserve(connection: sqlite3.Connection, batch_size: int) -> int:
    """Return how many picks to hold in reserve, beside those of the batch.

    Half as many again as images were answered while the picks before were waited for: in the
    training under way so far, or in the one before if those were more. It depends on nothing but
    the answers and trainings in the project's file.

    Args:
        connection: To the project's file.
        batch_size: Picks between two trainings; no fewer are in reserve.
    """
    counts = [0]
    for row in connection.execute(_LAST_TWO).fetchall():
        ended = math.inf if row["finished_at"] is None else row["finished_at"]
        given = (IMPORTED_BY, row["requested_at"], ended)
        counts.append(connection.execute(_ANSWERED, given).fetchone()[0])
    return max(batch_size, min(MOST, math.ceil(_MORE * max(counts))))
