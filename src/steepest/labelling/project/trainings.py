"""Trainings as rows of the store: asked for, under way, over."""

from __future__ import annotations

import json
import math
import sqlite3
from dataclasses import dataclass

from steepest.labelling.project.classes import ClassList
from steepest.labelling.project.predictions import unpack
from steepest.labelling.project.records import Batch, Pick, Training

AGAIN = "again, after the process was ended"
"""Why a training is asked for that did not come to its end."""


@dataclass(frozen=True)
class TrainingState:
    """What the training process is doing.

    Attributes:
        status: ``idle``, ``wanted`` or ``running``.
        stage: What is under way, such as ``"train"``.
        done: How much of it, such as epochs.
        total: How much there is.
        last: The latest training that came to an end, if any.
        model: The latest one that gave a model, if any.
        error: What went wrong in it, in one line.
    """

    status: str
    stage: str
    done: int
    total: int
    last: Training | None
    model: Training | None
    error: str | None


def request(connection: sqlite3.Connection, reason: str, now: float, folds: int = 0) -> int:
    """Ask for a training; one that waits already is enough.

    Args:
        connection: Within a transaction.
        reason: Why.
        now: What time it is.
        folds: Further models that look for wrong labels, in this training alone.
    """
    row = connection.execute("SELECT number FROM trainings WHERE status = 'wanted'").fetchone()
    if row is not None:
        connection.execute(
            "UPDATE trainings SET folds = max(folds, ?) WHERE number = ?", (folds, row["number"])
        )
        return int(row["number"])
    added = connection.execute(
        "INSERT INTO trainings (status, reason, requested_at, folds) VALUES ('wanted', ?, ?, ?)",
        (reason, now, folds),
    ).lastrowid
    return added or 0


def claim(connection: sqlite3.Connection, token: str, now: float) -> int | None:
    """Begin the training that waits; None if there is none.

    Args:
        connection: Within a transaction.
        token: Says whose it is: who has another may not finish it.
        now: What time it is.
    """
    row = connection.execute("SELECT number FROM trainings WHERE status = 'wanted'").fetchone()
    if row is None:
        return None
    connection.execute(
        "UPDATE trainings SET status = 'running', token = ?, started_at = ? WHERE number = ?",
        (token, now, row["number"]),
    )
    return int(row["number"])


def interrupt(connection: sqlite3.Connection, now: float) -> bool:
    """Note that no training is under way any more; one that was is asked for again."""
    rows = connection.execute(
        "UPDATE trainings SET status = 'interrupted', finished_at = ? WHERE status = 'running' "
        "RETURNING folds",
        (now,),
    ).fetchall()
    for row in rows:
        request(connection, AGAIN, now, row["folds"])
    return bool(rows)


def fail(connection: sqlite3.Connection, number: int, error: str, now: float) -> None:
    """Note what went wrong in a training."""
    connection.execute(
        "UPDATE trainings SET status = 'failed', error = ?, finished_at = ? WHERE number = ?",
        (error, now, number),
    )


def read_state(connection: sqlite3.Connection) -> TrainingState:
    """Return what the training process is doing."""
    row = connection.execute(
        "SELECT * FROM trainings WHERE status IN ('running', 'wanted') "
        "ORDER BY status = 'running' DESC LIMIT 1"
    ).fetchone()
    over = connection.execute(
        "SELECT * FROM trainings WHERE status IN ('done', 'failed') ORDER BY number DESC LIMIT 1"
    ).fetchone()
    made = connection.execute(
        "SELECT * FROM trainings WHERE version IS NOT NULL ORDER BY version DESC LIMIT 1"
    ).fetchone()
    last = None if over is None else to_training(over)
    model = None if made is None else to_training(made)
    error = None if last is None else last.error
    if row is None:
        return TrainingState("idle", "", 0, 0, last, model, error)
    stage, done, total = row["stage"], row["done"], row["total"]
    return TrainingState(row["status"], stage, done, total, last, model, error)


def list_trainings(connection: sqlite3.Connection) -> list[Training]:
    """Return trainings that came to their end, oldest first."""
    rows = connection.execute("SELECT * FROM trainings WHERE status = 'done' ORDER BY number")
    return [to_training(row) for row in rows]


def to_training(row: sqlite3.Row) -> Training:
    """Turn a row into a record."""
    names = [name for name in Training.__dataclass_fields__ if name != "metrics"]
    return Training(**{name: row[name] for name in names}, metrics=json.loads(row["metrics"]))


def latest_batch(connection: sqlite3.Connection) -> Batch | None:
    """Return the batch that is being labelled; None if nothing was picked yet."""
    row = connection.execute("SELECT * FROM batches ORDER BY number DESC LIMIT 1").fetchone()
    if row is None:
        return None
    # Of whatever rank: one who walks away keeps a pick for a while, and nobody waits for that.
    finished = connection.execute(
        """SELECT count(*) FROM picks p CROSS JOIN images i ON i.number = p.image
        WHERE p.batch = ? AND (i.votes > 0 OR i.skips > 0 OR i.open = 0)""",
        (row["number"],),
    ).fetchone()[0]
    return Batch(finished=min(finished, row["size"]), **dict(row))


def list_picks(connection: sqlite3.Connection, classes: ClassList, batch: int | None) -> list[Pick]:
    """Return what was picked together, best first; None is the latest batch."""
    rows = connection.execute(
        """SELECT p.*, i.id FROM picks p JOIN images i ON i.number = p.image
        WHERE p.batch = ifnull(?, (SELECT max(number) FROM batches)) ORDER BY p.rank""",
        (batch,),
    ).fetchall()
    return [
        Pick(
            row["batch"],
            row["rank"],
            row["id"],
            row["score"],
            row["strategy"],
            unpack(row["predicted"], classes),
        )
        for row in rows
    ]


def is_due(connection: sqlite3.Connection, batch_size: int, now: float = math.inf) -> bool:
    """Decide whether new picks are needed: the first, or those after a finished batch.

    Args:
        connection: To the project's file.
        batch_size: After how many answers a training that failed is tried again.
        now: What time it is.
    """
    waiting = connection.execute(
        "SELECT 1 FROM trainings WHERE status IN ('wanted', 'running')"
    ).fetchone()
    batch = latest_batch(connection)
    if waiting or (batch is not None and batch.finished < batch.size):
        return False
    last = connection.execute("SELECT * FROM trainings ORDER BY number DESC LIMIT 1").fetchone()
    if last is None or (last["status"] == "done" and batch is not None and batch.size):
        return True
    # After a failure, or when nothing was left to pick, the same again would end the same.
    ended = last["finished_at"] or 0.0
    # One that ended in the future ended by a clock that was wrong then.
    since = connection.execute(
        "SELECT count(*) FROM answers WHERE at > ?", (ended if ended <= now else 0.0,)
    ).fetchone()[0]
    return int(since) >= batch_size
