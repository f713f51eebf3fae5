"""Predictions that a person has looked at and accepts together, as answers of that person."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from steepest.errors import InputError
from steepest.labelling.project.answers import Giver, Seen, add_answer, check_annotator
from steepest.labelling.project.batches import VALIDATION
from steepest.labelling.project.classes import ClassList
from steepest.labelling.project.consensus import refresh
from steepest.labelling.project.history import note_decision
from steepest.labelling.project.predictions import (
    ACCEPTED,
    PredictedRow,
    list_predictions,
)
from steepest.labelling.project.records import predicted
from steepest.labelling.project.settings import Settings
from steepest.labelling.project.store import Store

LOWEST = 0.9
"""Predictions below are not accepted together: too many of them are wrong."""

_OPEN = "SELECT number FROM images WHERE open = 1 AND votes = 0 AND skips = 0 AND held_out = 0"


@dataclass(frozen=True)
class Acceptance:
    """Predictions that were accepted together.

    Attributes:
        number: Of the decision.
        at: When, in seconds since 1970.
        annotator: Who.
        accepted: How many.
        standing: How many of them still hold.
    """

    number: int
    at: float
    annotator: str
    accepted: int
    standing: int


class Accepting:
    """Lists predictions that are sure enough, and takes or takes back their acceptance.

    Images that models are tested on are not among them: a test on predictions says nothing.

    Args:
        store: The project's file.
        settings: Returns the current settings.
        clock: Returns the time.
        after: Called after answers are on disk.
    """

    def __init__(
        self,
        store: Store,
        settings: Callable[[], Settings],
        clock: Callable[[], float],
        after: Callable[[], None],
    ) -> None:
        self._store = store
        self._settings = settings
        self._clock = clock
        self._after = after

    def candidates(self, least: float) -> tuple[int | None, list[PredictedRow]]:
        """Return the model's version and the predictions that can be accepted, by their classes.

        Args:
            least: How sure the model must be.

        Raises:
            InputError: If that is below 90 %.
        """
        if not LOWEST <= least < 1:
            raise InputError(f"predictions of {LOWEST:.0%} to 99.99 % can be accepted together")
        version, rows = list_predictions(self._store, self._settings())
        with self._store.reading() as connection:
            free = {int(row["number"]) for row in connection.execute(_OPEN)}
        sure = [r for r in rows if r.image in free and (r.probability or 0.0) >= least]
        return version, sorted(sure, key=lambda r: (r.labels, -(r.probability or 0.0), r.sample))

    def check(self, least: float) -> tuple[int, int]:
        """Return how many random draws the latest model was this sure of, and how many it knew.

        These are images that it is tested on, whose labels it has not seen.

        Args:
            least: How sure it was at least.
        """
        settings = self._settings()
        with self._store.reading() as connection:
            rows = connection.execute(
                """SELECT o.probabilities, i.labels FROM opinions o
                JOIN images i ON i.number = o.image WHERE o.source = ? AND i.labels IS NOT NULL
                AND o.version = (SELECT max(version) FROM trainings)""",
                (VALIDATION,),
            ).fetchall()
        said = [
            (*predicted(row["probabilities"], multi_label=settings.multi_label), row["labels"])
            for row in rows
        ]
        sure = [(answer, label) for answer, value, label in said if (value or 0.0) >= least]
        return len(sure), sum(answer == label for answer, label in sure)

    def accept(self, annotator: str, samples: Sequence[str], version: int, least: float) -> int:
        """Take predictions as this person's answers; return how many.

        Those that somebody has answered meanwhile are left.

        Args:
            annotator: Who has looked at them.
            samples: Which.
            version: The model whose predictions were shown.
            least: How sure it had to be.

        Raises:
            InputError: If a later model says something else by now, or the name cannot be used.
        """
        check_annotator(annotator)
        now_version, rows = self.candidates(least)
        if now_version != version:
            raise InputError("a newer model has looked at the images meanwhile: look at these")
        wanted = set(samples)
        chosen = [row for row in rows if row.sample in wanted]
        settings, now = self._settings(), self._clock()
        taken: list[int] = []
        with self._store.writing() as connection:
            number = note_decision(
                connection,
                (annotator, now),
                "accept predictions",
                images=[row.image for row in chosen],
                detail=f"{least:g}",
            )
            giver = Giver(annotator, f"{ACCEPTED}{number}")
            classes = ClassList.load(connection, multi_label=settings.multi_label)
            for row in chosen:
                image = connection.execute(
                    "SELECT * FROM images WHERE number = ? AND open = 1 AND votes = 0",
                    (row.image,),
                ).fetchone()
                if image is None:
                    continue
                text = classes.encode(row.labels)
                seen = Seen(None, version, text, row.probability)
                add_answer(connection, giver, image, text, settings, now, seen)
                taken.append(row.image)
        if taken:
            self._after()
        return len(taken)

    def undo(self, annotator: str, number: int) -> int:
        """Take back an acceptance; return how many answers that were.

        Answers given since then stay.

        Raises:
            InputError: If this person has accepted nothing under that number.
        """
        check_annotator(annotator)
        settings, now = self._settings(), self._clock()
        browser = f"{ACCEPTED}{number}"
        with self._store.writing() as connection:
            rows = connection.execute(
                """SELECT a.number, a.image, a.previous FROM answers a JOIN current c
                ON c.image = a.image AND c.annotator = a.annotator AND c.answer = a.number
                WHERE a.annotator = ? AND a.browser = ? AND a.kind <> 'undo'""",
                (annotator, browser),
            ).fetchall()
            if not rows:
                raise InputError("nothing of that is left to take back")
            for row in rows:
                connection.execute(
                    """INSERT INTO answers (at, annotator, image, kind, undoes, browser)
                    VALUES (?, ?, ?, 'undo', ?, ?)""",
                    (now, annotator, row["image"], row["number"], browser),
                )
                connection.execute(
                    "DELETE FROM current WHERE image = ? AND annotator = ?",
                    (row["image"], annotator),
                )
                refresh(connection, row["image"], settings)
            note_decision(
                connection,
                (annotator, now),
                "undo accepted",
                images=[row["image"] for row in rows],
                detail=json.dumps(number),
            )
        self._after()
        return len(rows)

    def latest(self, limit: int = 10) -> list[Acceptance]:
        """Return the decisions to accept predictions, newest first."""
        with self._store.reading() as connection:
            rows = connection.execute(
                """SELECT d.number, d.at, d.annotator, count(a.number) AS accepted,
                    count(c.answer) AS standing
                FROM decisions d JOIN answers a ON a.browser = ? || d.number AND a.kind <> 'undo'
                AND a.annotator = d.annotator
                LEFT JOIN current c ON c.answer = a.number AND c.image = a.image
                    AND c.annotator = a.annotator
                WHERE d.kind = 'accept predictions' GROUP BY d.number
                ORDER BY d.number DESC LIMIT ?""",
                (ACCEPTED, limit),
            ).fetchall()
        return [Acceptance(**dict(row)) for row in rows]
