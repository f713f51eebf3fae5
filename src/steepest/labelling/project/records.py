"""Plain records that the store returns, with class names in them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from steepest.labelling.project.classes import ClassList

Kind = Literal["label", "relabel", "skip", "undo"]
Labels = tuple[str, ...]
"""Names of classes: exactly one, or any number where several are allowed."""


@dataclass(frozen=True)
class Prediction:
    """A model's prediction for one class.

    Attributes:
        name: The class.
        probability: How likely it is.
    """

    name: str
    probability: float


@dataclass(frozen=True)
class Task:
    """A sample handed out to one person.

    Attributes:
        sample: Its path relative to the folder.
        since: When it was given to that person.
        expires: When it may be given to another.
        batch: The batch of picks it belongs to; None if nothing picked it.
        rank: Its place there, from 1 on.
        score: Its score by the strategy.
        strategy: The method that picked it.
        version: The model that was asked.
        predictions: The model's predictions, most likely first.
        again: Whether its file was replaced after answers to an earlier one.
    """

    sample: str
    since: float
    expires: float
    batch: int | None = None
    rank: int | None = None
    score: float | None = None
    strategy: str | None = None
    version: int | None = None
    predictions: tuple[Prediction, ...] = ()
    again: bool = False


@dataclass(frozen=True)
class Answer:
    """One entry of the history.

    Attributes:
        number: Its place in the history.
        at: When, in seconds since 1970.
        annotator: Who.
        sample: About which sample.
        kind: A first label, another label, a refusal, or the taking back of one of these.
        labels: The classes; None for a skip or an undo.
        version: The model whose prediction was there at the time.
        predicted: Its prediction.
        probability: How likely that was in its eyes.
        batch: The batch the sample was given out in.
        undoes: The number of the answer that is taken back.
        earlier_file: Whether it is about another file that had the same name.
    """

    number: int
    at: float
    annotator: str
    sample: str
    kind: Kind
    labels: Labels | None
    version: int | None = None
    predicted: Labels | None = None
    probability: float | None = None
    batch: int | None = None
    undoes: int | None = None
    earlier_file: bool = False


@dataclass(frozen=True)
class Resolved:
    """All people's answers about a sample, combined.

    Attributes:
        labels: The majority's; None if there is none.
        votes: The people who gave a label.
        disputed: Whether they are split evenly, or copies of it have different labels.
        copy_of: The sample with the same bytes whose label this is; None if it is its own.
    """

    labels: Labels | None
    votes: int
    disputed: bool
    copy_of: str | None = None


@dataclass(frozen=True)
class SampleState:
    """The state of a sample.

    Attributes:
        sample: Its path relative to the folder.
        labels: The majority's; None if there is none.
        votes: The people who gave a label.
        skips: The people who skipped it.
        disputed: Whether people are split evenly.
        unreadable: Why it cannot be shown; None if it can, as far as is known.
        missing: Whether the file is gone.
        copy_of: A byte-identical sample that is labelled instead, if any.
        followed: The label that it has from that one; None if there is none.
    """

    sample: str
    labels: Labels | None
    votes: int
    skips: int
    disputed: bool
    unreadable: str | None
    missing: bool
    copy_of: str | None = None
    followed: Labels | None = None


@dataclass(frozen=True)
class Counts:
    """Numbers of images by state.

    Labelled, skipped, disputed and unanswered images together are all.

    Attributes:
        images: All that were ever found.
        labelled: Those with a label.
        skipped: Those skipped by an annotator and labelled by none.
        disputed: Those on which people are split evenly.
        unanswered: Those without any answer.
        open: Those that still wait for a first answer or another one.
        unreadable: Those that cannot be shown.
        missing: Those whose file is gone.
        changed: Answered ones whose files hold something else now.
        copies: Those without an answer whose byte-identical copy is labelled instead.
        differing: Those with another label than one with the same bytes.
    """

    images: int
    labelled: int
    skipped: int
    disputed: int
    unanswered: int
    open: int
    unreadable: int
    missing: int
    changed: int = 0
    copies: int = 0
    differing: int = 0


@dataclass(frozen=True)
class Batch:
    """Samples that were picked together.

    Attributes:
        number: Counts batches from 1 on.
        at: When they were picked.
        strategy: The method that picked them.
        version: The model that was asked; None if there was none.
        fingerprint: Of that model.
        size: After how many answers the next training is due; further picks are in reserve.
        finished: How many images were answered or skipped since the last training began, up to
            that size: picks of this batch and any others, by whomever.
    """

    number: int
    at: float
    strategy: str
    version: int | None
    fingerprint: str
    size: int
    finished: int


@dataclass(frozen=True)
class Pick:
    """One picked sample.

    Attributes:
        batch: Its batch.
        rank: Its place there, from 1 on.
        sample: Its path relative to the folder.
        score: Its score by the strategy; None for random draws.
        strategy: The method that picked it; ``"validation"`` for random draws, held out.
        predictions: The model's predictions, most likely first.
    """

    batch: int
    rank: int
    sample: str
    score: float | None
    strategy: str
    predictions: tuple[Prediction, ...] = ()


@dataclass(frozen=True)
class Training:
    """One training, asked for, under way or over.

    Attributes:
        number: Counts requests.
        version: Counts models; None where none was trained.
        status: ``wanted``, ``running``, ``done``, ``failed`` or ``interrupted``.
        reason: Why it was requested.
        requested_at: When.
        started_at: When it began.
        finished_at: When it was over.
        labels: Labels it was trained on.
        validation: Labels it was tested on.
        correct: How many of these it predicted.
        metrics: All that was measured on them.
        seconds: How long it took.
        weights: The file of the weights, relative to the project's folder.
        fingerprint: Of the model.
        error: The error, in one line.
        batch: The batch that it picked.
    """

    number: int
    version: int | None
    status: str
    reason: str
    requested_at: float
    started_at: float | None
    finished_at: float | None
    labels: int
    validation: int
    correct: int
    metrics: Mapping[str, Any]
    seconds: float | None
    weights: str | None
    fingerprint: str
    error: str | None
    batch: int | None


_DIGITS = 5


def pack(probabilities: Sequence[float]) -> str:
    """Return probabilities [K] of all classes as a text."""
    return json.dumps([round(float(p), _DIGITS) for p in probabilities])


def unpack(text: str, classes: ClassList) -> tuple[Prediction, ...]:
    """Return the classes that a model knew, most likely first."""
    values = json.loads(text)
    # Classes may have been added since, which that model had never heard of.
    pairs = [Prediction(classes.names[k], value) for k, value in enumerate(values)]
    return tuple(sorted(pairs, key=lambda pair: -pair.probability))


def predicted(text: str, *, multi_label: bool) -> tuple[str | None, float | None]:
    """Return the predicted label as the store keeps labels, and how likely it is.

    Where an image may have several classes, these are all that are likelier there than not, and
    the probability is that of the least certain decision.
    """
    values = json.loads(text)
    if not values:
        return None, None
    if multi_label:
        said = [k for k, value in enumerate(values) if value > 0.5]
        return json.dumps(said), min(max(value, 1 - value) for value in values)
    best = max(range(len(values)), key=values.__getitem__)
    return json.dumps([best]), values[best]
