"""Answers about the samples of a pool: from the rows of files to the changes that they make."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePosixPath

from steepest.core.seeds import SampleId
from steepest.errors import InputError, PoolError, SteepestError
from steepest.labelling.exchange.maps import check_map, map_label, read_map
from steepest.labelling.exchange.vocabulary import SEGMENTATION, Vocabulary
from steepest.labelling.formats.base import Map, Row
from steepest.labelling.names import spellings
from steepest.pool import Pool, State, Verb
from steepest.pool.values import Label, check_text


@dataclass(frozen=True)
class Answer:
    """A label, or a mark that none can be given.

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
        verb: The action.
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


_NUMBER = re.compile(r"-?[0-9]{1,30}")


def to_answers(
    rows: Iterable[Row], path: Path, words: Vocabulary, pool: Pool, *, stems: bool = False
) -> list[Answer]:
    """Return what the rows say; those without an answer are passed over.

    Args:
        rows: The rows that were read.
        path: From which file.
        words: The task and its classes.
        pool: The samples.
        stems: Whether ids lack the endings of file names.

    Raises:
        InputError: Naming the row, if a sample or a class is not known.
    """
    answers, find = [], id_finder(pool, stems=stems)
    for row in rows:
        try:
            answer = _answer(row, path, words, find)
        except SteepestError as error:
            raise InputError(f"{path}, {row.where}: {error}") from error
        if answer is not None:
            answers.append(answer)
    return answers


def id_finder(pool: Pool, *, stems: bool = False) -> Callable[[object], SampleId]:
    """Return what finds the pool's id that a file or a server means.

    It raises an ``InputError`` if there is none.

    Args:
        pool: The samples.
        stems: Whether ids lack the endings of file names.
    """
    ids = pool.ids()
    numbered = isinstance(ids[0], int)
    by_stem: dict[str, list[SampleId]] = {}
    for sample in ids if stems else ():
        by_stem.setdefault(str(PurePosixPath(str(sample)).with_suffix("")), []).append(sample)

    def find(value: object) -> SampleId:
        sample = value
        if numbered and isinstance(value, str) and _NUMBER.fullmatch(value.strip()):
            sample = int(value)
        known = spellings(sample) if isinstance(sample, str) else (sample,)
        for name in known:
            if isinstance(name, (int, str)) and not isinstance(name, bool) and name in pool:
                return name
        named = [sample for name in known for sample in by_stem.get(str(name), ())]
        if len(named) > 1:
            raise InputError(f"{value!r} may be {named[0]!r} or {named[1]!r}; rename one of them")
        if named:
            return named[0]
        raise InputError(f"there is no sample {value!r} in the pool")

    return find


def _answer(
    row: Row, path: Path, words: Vocabulary, find: Callable[[object], SampleId]
) -> Answer | None:
    sample = find(row.id)
    if row.skip:
        if not row.empty:
            raise InputError(f"sample {sample!r} is labelled and skipped; decide on one")
        check_text(row.skip, "reason")
        return Answer(sample, None, row.skip, row.annotator, row.where)
    if row.empty:
        return None
    if words.task != SEGMENTATION:
        return Answer(sample, words.from_json(row.label), "", row.annotator, row.where)
    draw = partial(_read_beside, path, row.label, len(words.names))
    label: Label = map_label(draw())
    return Answer(sample, label, "", row.annotator, row.where, draw)


def _read_beside(file: Path, name: object, classes: int) -> Map:
    """Read the map that a label file names by its path relative to itself."""
    if not isinstance(name, str):
        raise InputError(f"{name!r} is no label map; give the path of one")
    folder = file.parent.resolve()
    path = (folder / name.strip()).resolve()
    if not path.is_relative_to(folder):
        raise InputError(f"label map {name!r} is outside the file's folder; put it beside the file")
    return check_map(read_map(path), classes)
