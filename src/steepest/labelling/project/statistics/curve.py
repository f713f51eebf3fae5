"""The learning curve on held-out samples, and the gain of the last doubling of the labels."""

from __future__ import annotations

import math
import sqlite3
from dataclasses import dataclass

from steepest.labelling.project.batches import VALIDATION
from steepest.labelling.project.history import STANDING
from steepest.labelling.project.project import Project
from steepest.labelling.project.records import predicted

Z_95 = 1.959964


@dataclass(frozen=True)
class CurvePoint:
    """One model on the samples held out.

    Attributes:
        version: The model.
        labels: Number of labels that it was trained on.
        validation: The samples that it was tested on.
        correct: How many of these it got right.
        accuracy: Their share; None if there were none.
        low: Lower end of the 95 % interval.
        high: Upper end.
        at: When it was done.
    """

    version: int
    labels: int
    validation: int
    correct: int
    accuracy: float | None
    low: float | None
    high: float | None
    at: float


@dataclass(frozen=True)
class PredictionAgreement:
    """How often people's answers matched the model's earlier predictions.

    Picks of a strategy are hard on purpose; the random draws speak for the whole folder.

    Attributes:
        answers: First answers about samples with a prediction.
        agreed: How many of these equal the prediction.
        share: Their share; None if there are none.
        low: Lower end of the 95 % interval.
        high: Upper end.
        random_answers: Those about random draws.
        random_agreed: How many of these agree.
    """

    answers: int
    agreed: int
    share: float | None
    low: float | None
    high: float | None
    random_answers: int
    random_agreed: int


def binomial_interval(hits: int, total: int) -> tuple[float | None, float | None, float | None]:
    """Return a share and Wilson's 95 % interval around it; nothing of nothing is unknown."""
    if not total:
        return None, None, None
    share = hits / total
    shrunk = 1 + Z_95**2 / total
    middle = (share + Z_95**2 / (2 * total)) / shrunk
    spread = share * (1 - share) / total + (Z_95 / (2 * total)) ** 2
    half = Z_95 * math.sqrt(spread) / shrunk
    return share, max(0.0, middle - half), min(1.0, middle + half)


def learning_curve(project: Project) -> list[CurvePoint]:
    """Return one point for each model, in the order of their making."""
    return [
        CurvePoint(
            done.version,
            done.labels,
            done.validation,
            done.correct,
            *binomial_interval(done.correct, done.validation),
            done.finished_at or 0.0,
        )
        for done in project.trainings()
        if done.version is not None
    ]


def agreement_with_predictions(project: Project) -> PredictionAgreement:
    """Compare first answers with the predictions when the sample was handed out."""
    with project.store.reading() as connection:
        rows = connection.execute(
            f"""SELECT p.strategy = ? AS drawn, count(*) AS answers,
                sum(a.labels = a.predicted) AS agreed
            FROM answers a JOIN picks p ON p.batch = a.batch AND p.image = a.image
            WHERE a.kind = 'label' AND a.predicted IS NOT NULL AND {STANDING}
            AND a.browser NOT LIKE 'accepted:%' GROUP BY drawn""",  # noqa: S608
            (VALIDATION,),
        ).fetchall()
    counts = {bool(row["drawn"]): (row["answers"], row["agreed"]) for row in rows}
    random, chosen = counts.get(True, (0, 0)), counts.get(False, (0, 0))
    answers, agreed = random[0] + chosen[0], random[1] + chosen[1]
    return PredictionAgreement(answers, agreed, *binomial_interval(agreed, answers), *random)


_LEAST_TESTED = 10


@dataclass(frozen=True)
class Doubling:
    """The latest model beside one that had half of its labels or fewer.

    Attributes:
        labels_before: Number of labels that the earlier model was trained on.
        labels: Number of labels that the latest was trained on.
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
    """Compare the latest model with one of half the labels, on samples that both were tested on.

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
