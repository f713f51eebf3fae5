"""Accuracy of the models on held-out samples and against people's answers."""

from __future__ import annotations

import math
from dataclasses import dataclass

from steepest.labelling.project.history import STANDING
from steepest.labelling.project.picking import VALIDATION
from steepest.labelling.project.project import Project

Z_95 = 1.959964


@dataclass(frozen=True)
class CurvePoint:
    """One model on the samples held out.

    Attributes:
        version: The model.
        labels: What it was trained on.
        validation: What it was tested on.
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
        agreed: How many of these are what was predicted.
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
    """Compare first answers with what was predicted when the sample was given out."""
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
