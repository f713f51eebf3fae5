"""Figures about the work so far, computed only when something has changed."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

from steepest.labelling.project import Batch, Counts, Project, TrainingState, statistics
from steepest.labelling.project.statistics import (
    AnnotatorAgreement,
    CurvePoint,
    Doubling,
    Forecast,
    PredictionAgreement,
    Speed,
    Suspicion,
)

MOST_SUSPICIOUS = 60
_REST = 8.0
"""As many times as long as it took to compute them, figures are kept."""


@dataclass(frozen=True)
class Figure:
    """A value computed at one moment.

    Attributes:
        counts: How many images are in which state.
        curve: The models so far.
        agreement: The share of answers that equal the prediction.
        speed: How fast people are.
        balance: How many labels each class has.
        suspicious: Labels to look at again.
        people: Whether people agree with each other.
        doubling: The gain from the last doubling of the labels; None if unknown.
        regime: Why another strategy chose than the one asked for; None if it did not.
        wanting: Why no model can be trained yet; None if one can.
        verdict: What to think of the latest picks, in a sentence; None if there is nothing to say.
    """

    counts: Counts
    curve: list[CurvePoint]
    agreement: PredictionAgreement
    speed: Speed
    balance: dict[str, int]
    suspicious: list[Suspicion]
    people: AnnotatorAgreement
    doubling: Doubling | None
    regime: str | None
    wanting: str | None
    verdict: str | None = None


@dataclass(frozen=True)
class Work:
    """Work in progress.

    Attributes:
        training: The state of the training process.
        batch: The batch being labelled.
        features: How many images have features, and of how many; None if that is not known.
    """

    training: TrainingState
    batch: Batch | None
    features: tuple[int, int] | None = None


class Figures:
    """Answers many pages that ask every few seconds.

    Args:
        project: The project that it is about.
    """

    def __init__(self, project: Project) -> None:
        self._project = project
        self._guard = threading.Lock()
        self._latest: Figure | None = None
        self._mark: tuple[object, ...] = ()
        self._fresh_until = 0.0
        self._forecasts: dict[tuple[float, int], Forecast] = {}

    def look(self, *, exact: bool = False) -> Figure:
        """Return figures that are up to date, or nearly so while many answers come in.

        Args:
            exact: Whether the last answer must be in them.
        """
        with self._guard:
            mark = self._read_mark()
            now = time.monotonic()
            if self._latest is None or (mark != self._mark and (exact or now >= self._fresh_until)):
                self._latest = self._compute()
                took = time.monotonic() - now
                self._mark, self._fresh_until = mark, now + _REST * took
            return self._latest

    def work(self) -> Work:
        """Return the work in progress."""
        trainer = self._project.trainer
        return Work(trainer.state(), self._project.batch(), trainer.features)

    def hint_certainty(self) -> float | None:
        """Return how sure the model must be for its hint to be shown; None: never yet."""
        return statistics.hint_certainty(self._project)

    def forecast(self, target: float) -> Forecast:
        """Return the labels needed for an accuracy.

        Raises:
            InputError: If the target is no accuracy.
        """
        key = (target, len(self.look().curve))
        found = self._forecasts.get(key)
        if found is None:
            found = statistics.forecast(self._project, target)
            if len(self._forecasts) > 100:
                self._forecasts.clear()
            self._forecasts[key] = found
        return found

    def _read_mark(self) -> tuple[object, ...]:
        """Return something that changes with every answer, training and look at the folder."""
        with self._project.store.reading() as connection:
            row = connection.execute(
                """SELECT (SELECT max(number) FROM answers),
                (SELECT max(number) FROM trainings WHERE status IN ('done', 'failed')),
                (SELECT count(*) FROM classes),
                (SELECT count(*) FROM images WHERE changed > 0 AND changed = 2)"""
            ).fetchone()
        return (*row, self._project.scan, self._project.settings)

    def _compute(self) -> Figure:
        project = self._project
        done = project.trainings()
        return Figure(
            project.progress(),
            statistics.learning_curve(project),
            statistics.agreement_with_predictions(project),
            statistics.speed(project),
            statistics.class_balance(project),
            statistics.suspicious(project, limit=MOST_SUSPICIOUS),
            statistics.annotator_agreement(project),
            statistics.last_doubling(project),
            done[-1].metrics.get("regime") if done else None,
            project.why_no_model(),
            done[-1].metrics.get("verdict") if done else None,
        )
