"""The number of picks held in reserve, so that nobody runs out while the next model is trained."""

from __future__ import annotations

import math
import sqlite3

from steepest.labelling.project.resolve import IMPORTED_BY

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
