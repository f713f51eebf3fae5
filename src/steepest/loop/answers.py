"""Converts labels from people or programs into answers for a pool."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from steepest.core.seeds import SampleId
from steepest.core.wording import counted
from steepest.errors import InputError, SettingWarning
from steepest.labelling import Answers, Labeller, apply
from steepest.pool import Pool, State, Verb
from steepest.pool.values import Label, plain_id, plain_label

Examples = dict[str, tuple[SampleId, Label]]
"""A labelled sample of each type of label: "text", or "number" for lists of numbers, too."""


class LabelKinds:
    """Tracks the types of a pool's labels, without reading all of them each time.

    A pool that mixes them already, as earlier versions let it, takes both.

    Args:
        pool: The pool, with the labels that are there.
    """

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._known = _examples(zip(*pool.labelled(), strict=True))

    def check(self, labels: Mapping[SampleId, Label]) -> None:
        """Refuse new labels that mix numbers and texts, with each other or with those there.

        Raises:
            InputError: Naming one of each.
        """
        new = _examples(labels.items())
        if len(self._known | new) > 1:
            # Those that are known may have been corrected since.
            self._known = _examples(zip(*self._pool.labelled(), strict=True))
        if len(self._known) < 2 and len(found := self._known | new) > 1:
            (one, text), (other, number) = found["text"], found["number"]
            there = "; loop.pool.relabel corrects those that are there" if self._known else ""
            raise InputError(
                f"label {text!r} of sample {one!r} is a text and {number!r} of sample {other!r} "
                f"is not: give the names of all classes, or the numbers of all{there}"
            )
        self._known = self._known or new


def _examples(pairs: Iterable[tuple[SampleId, Label]]) -> Examples:
    found: Examples = {}
    for sample, label in pairs:
        plain = plain_label(label)
        found.setdefault("text" if isinstance(plain, str) else "number", (sample, plain))
    return found


Asking = Callable[[list[SampleId]], Any] | Labeller
"""Source of labels: a function of ids, or a labeller."""


def ask_for(who: Asking, ids: Sequence[SampleId]) -> Iterator[Answers]:
    """Ask for the labels of samples, and yield answers as they come.

    Args:
        who: A function that returns ``Answers``, labels by id (None skips a sample, one that is
            not there waits), also as a column of pandas with the ids as its index, one label or
            None per id in their order, or that yields pairs of id and label one by one; or a
            labeller.
        ids: The samples in question.

    Raises:
        InputError: If an answer is about something else, or is none.
    """
    asked = set(ids)
    answers = who.label(ids) if isinstance(who, Labeller) else who(list(ids))
    if isinstance(answers, Iterator):
        for pair in answers:
            yield _about(as_answers(dict([_pair(pair)])), asked)
        return
    if hasattr(answers, "index") and hasattr(answers, "items"):
        answers = dict(answers.items())  # A pandas column: its rows may be in another order.
    if not isinstance(answers, (Answers, Mapping)):
        labels = _one_each(answers, len(ids))
        _refuse_pairs(labels, ids)
        answers = dict(zip(ids, labels, strict=True))
    yield _about(as_answers(answers), asked)


def check_functions(**given: object) -> None:
    """Raise early if a callback cannot be called.

    Args:
        given: By name; all but ``fit`` may be None.

    Raises:
        InputError: Naming the first that is no function.
    """
    for name, function in given.items():
        absent = function is None and name != "fit"
        labels = name == "label" and isinstance(function, Labeller)
        if not (absent or labels or callable(function)):
            raise InputError(f"{name} must be a function, not a {type(function).__name__}")


def as_answers(answers: Answers | Mapping[Any, Any]) -> Answers:
    """Return labels by id as answers; None skips a sample.

    Raises:
        InputError: If it is no mapping, or holds an invalid id or label.
    """
    if isinstance(answers, Answers):
        return answers
    if not isinstance(answers, Mapping):
        raise InputError(f"answers are a {type(answers).__name__}: give labels by id, as a dict")
    labels: dict[SampleId, Label] = {}
    skipped: list[SampleId] = []
    for name, label in answers.items():
        sample = plain_id(name)
        if label is None:
            skipped.append(sample)
        else:
            labels[sample] = _as_label(label, sample)
    return Answers(labels, tuple(skipped))


def give(pool: Pool, answers: Mapping[Any, Any], kinds: LabelKinds) -> None:
    """Take in labels of the beginning, but those that the pool has a word on already.

    Raises:
        InputError: If something in it is no id of the pool or no label, or of another kind.
    """
    labels = as_answers(answers).labels
    given = dict(zip(labels, pool.normal(list(labels.values())), strict=True))
    new = {i: label for i, label in given.items() if pool.cycle_of(i) is None}
    kinds.check(new)
    apply(pool, Answers(new), cycle=0, who="given")
    others = [i for i, label in given.items() if _says_otherwise(pool, i, label)]
    if others:
        first, more = others[0], f", as of {len(others) - 1} more" if others[1:] else ""
        warnings.warn(
            f"labels= says {given[first]!r} of sample {first!r}, and the folder says "
            f"{pool.label_of(first)!r}, which stays{more}: to correct a label, use "
            "loop.pool.relabel",
            SettingWarning,
            stacklevel=3,
        )


def _says_otherwise(pool: Pool, sample: SampleId, label: Label) -> bool:
    """Return whether a pool has another label that was not corrected."""
    if pool.state(sample) is not State.LABELLED or pool.label_of(sample) == label:
        return False
    return all(event.verb is not Verb.RELABEL for event in pool.history(sample))


def _as_label(value: Any, sample: SampleId) -> Label:  # noqa: ANN401
    """Return a label as a pool stores it, and raise on spellings of a missing label."""
    plain = _plain(value)
    several = plain if isinstance(plain, (list, tuple)) else [plain]
    remedy = ""
    if any(isinstance(part, bool) for part in several):
        remedy = "give 0 or 1, or list the numbers of the classes that are there"
    elif any(isinstance(part, float) for part in several):
        remedy = "give int() of a class; numbers to be predicted (regression) are not supported"
    if plain == "" or (isinstance(plain, float) and math.isnan(plain)):
        remedy = "leave the sample out if nobody knows yet, give None if nobody ever will"
    if remedy:
        raise InputError(f"label {plain!r} of sample {sample!r} is no class: {remedy}")
    label = plain_label(plain)
    # Most rows of 0 and 1 are caught by this.
    if isinstance(label, list) and len(set(label)) < len(label):
        raise InputError(
            f"label {label} of sample {sample!r} names a class twice: list the numbers of its "
            "classes, and give no row of 0 and 1"
        )
    return label


def name_of(who: Asking) -> str:
    """Return whom the pool remembers as the giver of labels."""
    if isinstance(who, Labeller):
        return who.name
    name = getattr(who, "__name__", "")
    return name if name.isidentifier() else "label"


def _plain(value: Any) -> Any:  # noqa: ANN401
    return value.tolist() if hasattr(value, "tolist") else value


def _pair(pair: Any) -> tuple[SampleId, Any]:  # noqa: ANN401
    if not isinstance(pair, tuple) or len(pair) != 2:
        raise InputError(f"label yielded {pair!r}: yield pairs of id and label")
    return plain_id(pair[0]), pair[1]


def _one_each(answers: Any, count: int) -> list[Any]:  # noqa: ANN401
    plain = _plain(answers)
    if not isinstance(plain, (list, tuple)):
        kind = type(answers).__name__
        raise InputError(f"label returned a {kind}: return labels by id, or a list of one per id")
    if len(plain) != count:
        raise InputError(
            f"label returned {counted(len(plain), 'label')} for {counted(count, 'sample')}: return "
            "a dict to leave some out, or None in their place"
        )
    return list(plain)


def _refuse_pairs(labels: Sequence[Any], ids: Sequence[SampleId]) -> None:
    """Refuse pairs of id and label in a list: each would pass for a label of two classes."""
    pairs = [label for label in labels if isinstance(label, (list, tuple)) and len(label) == 2]
    # Of one sample alone, a list may well be its two classes.
    sure = len(ids) > 1 or (len(pairs) == 1 and isinstance(pairs[0], tuple))
    named = [first for pair in pairs if isinstance(first := _plain(pair[0]), (int, str))]
    if sure and len(named) == len(ids) and set(named) == set(ids):
        raise InputError(
            "label returned a list of pairs of id and label: return dict() of it, or yield them"
        )


def _about(answers: Answers, asked: set[SampleId]) -> Answers:
    strange = next((i for i in (*answers.labels, *answers.skipped) if i not in asked), None)
    if strange is not None:
        raise InputError(
            f"label answered for sample {strange!r}, which it was not asked about: leave it out; "
            "pass labels that were not requested to ActiveLoop.tell"
        )
    return answers
