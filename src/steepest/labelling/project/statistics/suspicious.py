"""Hints and doubted labels, shown once models have been right often enough."""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass

from steepest.errors import InputError
from steepest.labelling.project.classes import ClassList
from steepest.labelling.project.copies import SHOWN_BY
from steepest.labelling.project.history import STANDING
from steepest.labelling.project.project import Project
from steepest.labelling.project.records import Labels

HINT_SHARE = 0.8
"""So many of the predictions that were at least as sure came true, or a hint is not shown."""

FEWEST = 20
"""The fewest predictions for an estimate."""

_LATEST = 100

# Not those that were accepted at once: nobody gave an answer of their own there.
_ANSWERS = f"""SELECT a.probability, a.labels = a.predicted AS hit FROM answers a
    WHERE a.kind = 'label' AND a.predicted IS NOT NULL AND a.probability IS NOT NULL
    AND a.browser NOT LIKE 'accepted:%' AND {STANDING} ORDER BY a.number DESC LIMIT ?"""  # noqa: S608


def earned_certainty(
    predictions: Iterable[tuple[float, bool]], share: float, fewest: int = FEWEST
) -> float | None:
    """Return the lowest certainty from which on enough predictions came true.

    Args:
        predictions: How sure each was, and whether it came true.
        share: So many must have, of all that were at least as sure.
        fewest: So many must have been at least as sure.

    Returns:
        None if there is no such certainty.
    """
    earned, right = None, 0
    ordered = sorted(predictions, key=lambda one: -one[0])
    for count, (certainty, hit) in enumerate(ordered, start=1):
        right += hit
        # Those that are as sure as the next one belong together.
        last = count == len(ordered) or ordered[count][0] < certainty
        if last and count >= fewest and right >= share * count:
            earned = certainty
    return earned


def hint_certainty(project: Project) -> float | None:
    """Return how sure the model must be of an image for its hint to be shown; None: never yet.

    It is measured on the latest hundred answers about images of which a model had said something.
    """
    with project.store.reading() as connection:
        rows = connection.execute(_ANSWERS, (_LATEST,)).fetchall()
    return earned_certainty(((row["probability"], bool(row["hit"])) for row in rows), HINT_SHARE)


@dataclass(frozen=True)
class Suspicion:
    """A label, and the prediction of a model that was not trained on it.

    Attributes:
        sample: The sample.
        labels: The annotators' labels.
        predicted: The model's predictions.
        label_probability: How likely people are right in its eyes.
        probability: How likely it is right itself in its eyes.
        version: The model, or the round of models.
        source: Why it had not seen the label: ``pick`` (it came before the label),
            ``validation`` (never trained on) or ``fold`` (left out on purpose).
    """

    sample: str
    labels: Labels
    predicted: Labels
    label_probability: float
    probability: float
    version: int
    source: str


EARNED_SHARE = 0.75
"""So many labels agree with models that were at least as sure, or a doubt is not shown."""

_MOST_SHARE = 0.1
_LEAST_LISTED = 3
_TINY = 1e-6


def suspicious(project: Project, *, limit: int = 50, margin: float = 0.3) -> list[Suspicion]:
    """Return labels that models doubt, those with the strongest evidence first.

    Each sample is judged by the latest model that did not train on its label. One that somebody
    labelled again, or more people than were asked, is not listed: it was looked at twice.

    A doubt is listed if three in four labels agree with the models that were at least as sure,
    of twenty or more. Of ten labels that were judged one is listed at most: where more are doubted,
    it is the models that are wrong.

    Args:
        project: Whose labels.
        limit: How many at most.
        margin: By how much the model must prefer its own answer.

    Raises:
        InputError: If the margin is not between 0 and 1.
    """
    if not 0 <= margin <= 1:
        raise InputError(f"margin is {margin}; use 0 to 1")
    rows, classes = read_opinions(project)
    judged = [found for row in rows if (found := _judge(row, classes)) is not None]
    earned = earned_certainty(
        ((j.probability, j.predicted == j.labels) for j in judged), EARNED_SHARE
    )
    if earned is None:
        return []
    strong = [
        j
        for j in judged
        if j.predicted != j.labels
        and j.probability >= earned
        and j.probability - j.label_probability >= margin
    ]
    strong.sort(key=lambda j: (-_evidence(j), j.sample))
    return strong[: min(limit, max(_LEAST_LISTED, int(_MOST_SHARE * len(judged))))]


def read_opinions(project: Project) -> tuple[list[sqlite3.Row], ClassList]:
    """Return each label's prediction by the latest model not trained on it, and the classes."""
    with project.store.reading() as connection:
        classes = ClassList.load(connection, multi_label=project.settings.multi_label)
        return connection.execute(_OPINIONS, (project.settings.overlap,)).fetchall(), classes


def _evidence(doubt: Suspicion) -> float:
    """Return the log odds of the model's answer against the label."""
    return math.log((doubt.probability + _TINY) / (doubt.label_probability + _TINY))


# SQLite takes the other columns from the row of the maximum.
_OPINIONS = f"""SELECT {SHOWN_BY} AS shown, i.labels, o.source, o.probabilities,
    max(o.version) AS version
    FROM (
        SELECT image, version, source, probabilities FROM opinions
        UNION ALL
        SELECT p.image, b.version, 'pick', p.predicted FROM picks p
        JOIN batches b ON b.number = p.batch WHERE b.version IS NOT NULL
    ) o JOIN images i ON i.number = o.image
    WHERE i.labels IS NOT NULL AND i.votes <= ? AND shown IS NOT NULL AND NOT EXISTS (
        SELECT 1 FROM current c JOIN answers a ON a.number = c.answer
        WHERE c.image = i.number AND a.kind = 'relabel')
    GROUP BY i.number"""  # noqa: S608


def _judge(row: sqlite3.Row, classes: ClassList) -> Suspicion | None:
    """Return the model's prediction for one label; None if it did not know the class."""
    values: list[float] = json.loads(row["probabilities"])
    label = set(json.loads(row["labels"]))
    if not values or max(label, default=0) >= len(values):
        return None
    if classes.multi_label:
        said = {k for k, value in enumerate(values) if value > 0.5}
        right = min(value if k in label else 1 - value for k, value in enumerate(values))
        sure = 1 - right
    else:
        best = max(range(len(values)), key=values.__getitem__)
        said, right, sure = {best}, values[next(iter(label))], values[best]
    return Suspicion(
        row["shown"],
        tuple(classes.names[k] for k in sorted(label)),
        tuple(classes.names[k] for k in sorted(said)),
        right,
        sure,
        row["version"],
        row["source"],
    )
