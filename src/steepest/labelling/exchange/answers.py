"""People's answers about samples, and the changes that bring the pool in line with them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from steepest.core.seeds import SampleId
from steepest.errors import InputError, PoolError
from steepest.pool import Pool, State, Verb
from steepest.pool.values import Label, check_text

Map = npt.NDArray[np.uint8]
"""Class numbers [H, W], 255 where no class is known."""


@dataclass(frozen=True)
class Answer:
    """A label, or that nobody can give one.

    Attributes:
        id: The sample.
        label: Its label; None says that it is skipped.
        reason: Why it is skipped.
        who: The person who said so; empty leaves that to whoever applies it.
        where: The place it was read from, such as ``"line 3"``.
        draw: Makes the label map that the label stands for.
    """

    id: SampleId
    label: Label | None
    reason: str = ""
    who: str = ""
    where: str = ""
    draw: Callable[[], Map] | None = field(default=None, compare=False)


def merge(answers: Iterable[Answer], source: str, say: Callable[[Label], str]) -> list[Answer]:
    """Return one answer per sample; equal ones count once.

    Args:
        answers: As they were read.
        source: Their source, for messages.
        say: Turns a label into words.

    Raises:
        InputError: If a sample has two different answers.
    """
    found: dict[SampleId, Answer] = {}
    for answer in answers:
        before = found.setdefault(answer.id, answer)
        if before.label != answer.label:
            one, other = (
                "skip" if a.label is None else repr(say(a.label)) for a in (before, answer)
            )
            raise InputError(
                f"{source}, {answer.where}: {other} for sample {answer.id!r}, but {one} at "
                f"{before.where}; decide on one"
            )
    return list(found.values())


_ORDER = (Verb.UNLABEL, Verb.LABEL, Verb.RELABEL, Verb.SKIP, Verb.QUERY)


@dataclass(frozen=True)
class Change:
    """One verb for one sample.

    Attributes:
        verb: What to do.
        id: The sample.
        label: Its label, for verbs that give one.
        who: By whose decision.
        reason: Why it is skipped.
    """

    verb: Verb
    id: SampleId
    label: Label | None = None
    who: str = ""
    reason: str = ""


def plan(
    pool: Pool,
    answers: Iterable[Answer],
    *,
    who: str,
    may_change: Callable[[SampleId], bool],
    say: Callable[[Label], str],
) -> list[Change]:
    """Return what has to happen for the pool to say what the answers say.

    Args:
        pool: The pool as it is.
        answers: One per sample.
        who: Whose decision it is where an answer does not say.
        may_change: Whether what is on record for a sample may be replaced.
        say: Turns a label into words.

    Raises:
        PoolError: If an answer contradicts the pool and may not change it.
        InputError: If a person's name cannot be written.
    """
    changes: list[Change] = []
    for answer in answers:
        state = pool.state(answer.id)
        present = pool.label_of(answer.id) if state is State.LABELLED else None
        settled = state in (State.LABELLED, State.SKIPPED)
        if settled and present == answer.label:
            continue
        if settled and not may_change(answer.id):
            raise PoolError(_contradiction(answer, present, say))
        check_text(answer.who or who, "name")
        changes += _steps(answer, state, answer.who or who)
    return changes


def withdraw(ids: Iterable[SampleId], who: str) -> list[Change]:
    """Return what makes settled samples wait for an answer again."""
    return [Change(verb, i, who=who) for i in ids for verb in (Verb.UNLABEL, Verb.QUERY)]


def carry_out(pool: Pool, changes: Sequence[Change], cycle: int) -> None:
    """Write changes, those of one verb and one person as one entry.

    A crash between two entries leaves the first ones; the same answers again add the rest.
    """
    for verb in _ORDER:
        groups: dict[tuple[str, str], list[Change]] = {}
        for change in changes:
            if change.verb is verb:
                groups.setdefault((change.who, change.reason), []).append(change)
        for (who, reason), group in groups.items():
            _write(pool, verb, group, cycle, who, reason)


def _write(
    pool: Pool, verb: Verb, group: Sequence[Change], cycle: int, who: str, reason: str
) -> None:
    ids = [change.id for change in group]
    labels = [change.label for change in group if change.label is not None]
    match verb:
        case Verb.LABEL:
            pool.label(ids, labels, cycle=cycle, who=who)
        case Verb.RELABEL:
            pool.relabel(ids, labels, cycle=cycle, who=who)
        case Verb.SKIP:
            pool.skip(ids, cycle=cycle, who=who, reason=reason)
        case Verb.UNLABEL:
            pool.unlabel(ids, cycle=cycle, who=who)
        case Verb.QUERY:
            pool.query(ids, cycle=cycle, who=who)


def _steps(answer: Answer, state: State, who: str) -> list[Change]:
    steps: list[Change] = []
    verb = Verb.SKIP if answer.label is None else Verb.LABEL
    if state is State.LABELLED and answer.label is not None:
        verb = Verb.RELABEL
    elif state in (State.LABELLED, State.SKIPPED):
        steps.append(Change(Verb.UNLABEL, answer.id, who=who))
    steps.append(Change(verb, answer.id, answer.label, who, answer.reason))
    return steps


def _contradiction(answer: Answer, present: Label | None, say: Callable[[Label], str]) -> str:
    old = "skipped" if present is None else f"labelled {say(present)!r}"
    new = "to be skipped" if answer.label is None else repr(say(answer.label))
    place = f"{answer.where}: " if answer.where else ""
    return (
        f"{place}sample {answer.id!r} is {old} on record and {new} here; "
        "add --relabel to replace what is on record"
    )
