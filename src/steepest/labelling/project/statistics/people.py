"""The speed of people, and their agreement with each other and with models."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise

from steepest.labelling.project.consensus import IMPORTED_BY
from steepest.labelling.project.history import STANDING
from steepest.labelling.project.project import Project

Votes = Mapping[int, Mapping[str, str]]
"""Each person's answer about each image."""


@dataclass(frozen=True)
class PairAgreement:
    """Two people's first answers to the samples that both labelled.

    Attributes:
        first: One of them.
        second: The other.
        samples: How many samples.
        raw: The share on which they agree.
        cohen_kappa: The same beyond chance; None where chance alone would agree on all.
    """

    first: str
    second: str
    samples: int
    raw: float
    cohen_kappa: float | None


@dataclass(frozen=True)
class AnnotatorAgreement:
    """All people's first answers to the samples that two or more labelled.

    Attributes:
        samples: How many samples.
        raw: How likely two people agree on one of them; None if there are none.
        fleiss_kappa: The same beyond chance; None where chance alone would agree on all.
        pairs: Every two who have samples in common.
    """

    samples: int
    raw: float | None
    fleiss_kappa: float | None
    pairs: list[PairAgreement]


def annotator_agreement(project: Project) -> AnnotatorAgreement:
    """Compare people's independent answers about the same samples.

    First answers count, of as many people as are asked: an answer that was changed to settle a
    dispute, or that of a third who decided it, agrees with others because it knew of them. Where an
    image may have several classes, raw agreement is that of all classes at once, and kappa is the
    mean of the classes' own.
    """
    with project.store.reading() as connection:
        rows = connection.execute(
            f"""SELECT a.image, a.annotator, a.labels FROM current c
            JOIN answers held ON held.number = c.answer JOIN images i ON i.number = c.image
            JOIN answers a ON a.image = c.image AND a.annotator = c.annotator
            WHERE held.labels IS NOT NULL AND a.labels IS NOT NULL AND c.annotator <> ?
            AND (a.number > i.asked_again OR c.answer <= i.asked_again) AND {STANDING}
            ORDER BY a.number""",  # noqa: S608
            (IMPORTED_BY,),
        ).fetchall()
    asked = max(2, project.settings.overlap)
    votes: dict[int, dict[str, str]] = defaultdict(dict)
    for row in rows:
        said = votes[row["image"]]
        if len(said) < asked:
            said.setdefault(row["annotator"], row["labels"])
    shared = {image: said for image, said in votes.items() if len(said) > 1}
    classes = len(project.classes()) if project.settings.multi_label else None
    people = sorted({who for said in shared.values() for who in said})
    pairs = [
        pair
        for first, second in combinations(people, 2)
        if (pair := _compare(shared, first, second, classes)) is not None
    ]
    raw = _mean(_agreement(list(said.values())) for said in shared.values())
    groups = [list(said.values()) for said in shared.values()]
    return AnnotatorAgreement(len(shared), raw, _by_class(fleiss_kappa, groups, classes), pairs)


def cohen_kappa(pairs: Sequence[Sequence[str]]) -> float | None:
    """Return the agreement of two people beyond chance; None if it is not defined.

    Args:
        pairs: Answers of the first and the second person about each sample [N, 2].
    """
    if not pairs:
        return None
    total = len(pairs)
    observed = sum(a == b for a, b in pairs) / total
    first, second = Counter(a for a, _ in pairs), Counter(b for _, b in pairs)
    chance = sum(first[label] * second[label] for label in first) / total**2
    return _beyond(observed, chance)


def fleiss_kappa(groups: Sequence[Sequence[str]]) -> float | None:
    """Return the agreement of several people beyond chance; None if it is not defined.

    Args:
        groups: Answers of two or more people about each sample.
    """
    if not groups:
        return None
    observed = sum(map(_agreement, groups)) / len(groups)
    votes = Counter(label for group in groups for label in group)
    total = sum(votes.values())
    chance = sum((count / total) ** 2 for count in votes.values())
    return _beyond(observed, chance)


def _beyond(observed: float, chance: float) -> float | None:
    return None if chance >= 1.0 else (observed - chance) / (1.0 - chance)


def _agreement(said: Sequence[str]) -> float:
    """Return the share of pairs of people that agree on one sample."""
    same = sum(count * (count - 1) for count in Counter(said).values())
    return same / (len(said) * (len(said) - 1))


def _compare(shared: Votes, first: str, second: str, classes: int | None) -> PairAgreement | None:
    both = [(s[first], s[second]) for s in shared.values() if first in s and second in s]
    if not both:
        return None
    raw = sum(a == b for a, b in both) / len(both)
    return PairAgreement(first, second, len(both), raw, _by_class(cohen_kappa, both, classes))


def _by_class(
    kappa: Callable[[Sequence[Sequence[str]]], float | None],
    groups: Sequence[Sequence[str]],
    classes: int | None,
) -> float | None:
    if classes is None:
        return kappa(groups)
    lists = [[json.loads(text) for text in group] for group in groups]
    each = (
        kappa([[str(number in said) for said in group] for group in lists])
        for number in range(classes)
    )
    return _mean(value for value in each if value is not None)


def _mean(values: Iterable[float]) -> float | None:
    listed = list(values)
    return sum(listed) / len(listed) if listed else None


_BREAK_SECONDS = 120.0
"""A longer gap between two answers is a break and does not count."""


@dataclass(frozen=True)
class Pace:
    """One person's labelling speed, without breaks.

    Attributes:
        labels: Labels given.
        active_seconds: Time between answers that followed each other closely.
        per_minute: Labels in a minute of that time; None before there is any.
    """

    labels: int
    active_seconds: float
    per_minute: float | None


@dataclass(frozen=True)
class Speed:
    """The labelling speed of all people.

    Attributes:
        total: Of all together.
        annotators: Of each.
    """

    total: Pace
    annotators: dict[str, Pace]


def speed(project: Project) -> Speed:
    """Return labels per minute on the page: a sheet's answers come all at once."""
    with project.store.reading() as connection:
        rows = connection.execute(
            f"""SELECT a.at, a.annotator, a.kind <> 'skip' AS label FROM answers a
            WHERE a.annotator <> ? AND a.round IS NULL AND a.browser NOT LIKE 'accepted:%'
            AND {STANDING} ORDER BY a.at, a.number""",  # noqa: S608
            (IMPORTED_BY,),
        ).fetchall()
    events = [(row["at"], row["annotator"], bool(row["label"])) for row in rows]
    people = sorted({who for _, who, _ in events})
    by_person = {
        person: _pace([(at, label) for at, who, label in events if who == person])
        for person in people
    }
    return Speed(_pace([(at, label) for at, _, label in events]), by_person)


def class_balance(project: Project) -> dict[str, int]:
    """Return how many samples have each class, in the order of the classes."""
    names = project.classes()
    with project.store.reading() as connection:
        rows = connection.execute(
            "SELECT labels, count(*) AS samples FROM images WHERE labels IS NOT NULL "
            "GROUP BY labels"
        ).fetchall()
    counts: Counter[int] = Counter()
    for row in rows:
        for number in json.loads(row["labels"]):
            counts[number] += row["samples"]
    return {name: counts[number] for number, name in enumerate(names)}


def _pace(events: Sequence[tuple[float, bool]]) -> Pace:
    labels = sum(label for _, label in events)
    active, timed = 0.0, 0
    for (before, _), (at, label) in pairwise(events):
        if at - before <= _BREAK_SECONDS:
            active += at - before
            timed += label
    return Pace(labels, active, 60.0 * timed / active if active > 0 else None)
