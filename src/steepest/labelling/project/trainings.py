"""Trainings as rows of the store, and whether there are labels enough for one."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import dataclass

from steepest.labelling.project.classes import ClassList
from steepest.labelling.project.consensus import IMPORTED_BY
from steepest.labelling.project.copies import LEARNABLE
from steepest.labelling.project.records import Batch, Pick, Training, unpack

AGAIN = "again, after the process was ended"
"""Why a training is requested that did not come to its end."""

# By their numbers and not by their dates: clocks are set back.
_LAST = "(SELECT ifnull(max(number), 0) FROM answers)"
_ANSWERED = """SELECT count(*) FROM (SELECT DISTINCT a.image FROM answers a
    WHERE a.number > ifnull((SELECT answers FROM trainings WHERE status IN ('done', 'failed')
        ORDER BY number DESC LIMIT 1), 0)
    AND a.kind <> 'undo' AND a.annotator <> ?
    AND NOT EXISTS (SELECT 1 FROM answers u WHERE u.undoes = a.number) LIMIT ?)"""


@dataclass(frozen=True)
class TrainingState:
    """The state of the training process.

    Attributes:
        status: ``idle``, ``wanted`` or ``running``.
        stage: The work in progress, such as ``"train"``.
        done: How much of it, such as epochs.
        total: The total amount.
        last: The latest training that came to an end, if any.
        model: The latest one that gave a model, if any.
        error: The error in it, in one line.
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
        now: The present time.
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
        now: The present time.
    """
    row = connection.execute("SELECT number FROM trainings WHERE status = 'wanted'").fetchone()
    if row is None:
        return None
    connection.execute(
        f"""UPDATE trainings SET status = 'running', token = ?, started_at = ?, answers = {_LAST}
        WHERE number = ?""",  # noqa: S608
        (token, now, row["number"]),
    )
    return int(row["number"])


def interrupt(connection: sqlite3.Connection, now: float) -> bool:
    """Record that no training is running; one that was is requested again."""
    rows = connection.execute(
        "UPDATE trainings SET status = 'interrupted', finished_at = ? WHERE status = 'running' "
        "RETURNING folds",
        (now,),
    ).fetchall()
    for row in rows:
        request(connection, AGAIN, now, row["folds"])
    return bool(rows)


def fail(connection: sqlite3.Connection, number: int, error: str, now: float) -> None:
    """Record the error of a training run."""
    connection.execute(
        f"""UPDATE trainings SET status = 'failed', error = ?, finished_at = ?, answers = {_LAST}
        WHERE number = ?""",  # noqa: S608
        (error, now, number),
    )


def read_state(connection: sqlite3.Connection) -> TrainingState:
    """Return the state of the training process."""
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
    # What cannot be shown after all is answered by nobody.
    closed = connection.execute(
        """SELECT count(*) FROM picks p CROSS JOIN images i ON i.number = p.image
        WHERE p.batch = ? AND i.open = 0 AND i.votes = 0 AND i.skips = 0""",
        (row["number"],),
    ).fetchone()[0]
    finished = closed + count_answered(connection, row["size"])
    return Batch(finished=min(finished, row["size"]), **dict(row))


def count_answered(connection: sqlite3.Connection, most: int) -> int:
    """Return how many images people answered or skipped since the last training began.

    Of images that no one had picked too: whoever holds picks and does not answer holds nobody up.

    Args:
        connection: To the project's file.
        most: Where to stop counting.
    """
    return int(connection.execute(_ANSWERED, (IMPORTED_BY, most)).fetchone()[0])


def list_picks(connection: sqlite3.Connection, classes: ClassList, batch: int | None) -> list[Pick]:
    """Return a batch of picks, best first; None is the latest."""
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


def is_due(connection: sqlite3.Connection, batch_size: int) -> bool:
    """Decide whether a training is needed: for the first picks, or after enough answers.

    After a failure, too, answers are awaited: the same again would end the same.

    Args:
        connection: To the project's file.
        batch_size: How many answers are enough where there is no batch.
    """
    waiting = connection.execute(
        "SELECT 1 FROM trainings WHERE status IN ('wanted', 'running')"
    ).fetchone()
    if waiting:
        return False
    if connection.execute("SELECT 1 FROM trainings").fetchone() is None:
        return True
    batch = latest_batch(connection)
    if batch is not None:
        return batch.finished >= batch.size
    return count_answered(connection, batch_size) >= batch_size


# Two different ones are enough to know.
_DIFFERENT = f"""SELECT DISTINCT labels FROM ({LEARNABLE})
    WHERE id IS NOT NULL AND held_out = 0 LIMIT 2"""  # noqa: S608


def why_no_model(connection: sqlite3.Connection, *, multi_label: bool) -> str | None:
    """Say in one line why no model can be trained; None if one can.

    Args:
        connection: To the project's file.
        multi_label: Whether an image may have any number of classes.
    """
    classes = ClassList.load(connection, multi_label=multi_label)
    if len(classes.names) < 2:
        return "a model needs two classes to tell apart: add one under Files"
    found = [classes.decode(row["labels"]) for row in connection.execute(_DIFFERENT)]
    if len(found) >= 2:
        return None
    # Images held out for tests are labelled too, and do not count.
    if not found:
        return "a model needs labels of two classes; none that it may learn from is there yet"
    said = ", ".join(found[0] or ()) or "none of them"
    return f"a model needs labels of two classes; all that it may learn from are: {said}"
