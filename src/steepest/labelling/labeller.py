"""Labellers, their answers, and the way these reach the pool."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from steepest.core.seeds import SampleId
from steepest.errors import InputError, PoolError
from steepest.pool.pool import Pool
from steepest.pool.states import State
from steepest.pool.values import Label, copy_label, plain_id, plain_ids, plain_label


@dataclass(frozen=True)
class Answers:
    """Labels and refusals; a sample in neither is still waiting.

    Attributes:
        labels: The label of each sample that got one.
        skipped: The samples that nobody can label.

    Raises:
        InputError: If a sample is both labelled and skipped, or skipped twice.
    """

    labels: dict[SampleId, Label] = field(default_factory=dict)
    skipped: tuple[SampleId, ...] = ()

    def __post_init__(self) -> None:
        for sample in plain_ids(self.skipped):
            if sample in self.labels:
                raise InputError(f"sample {sample!r} is labelled and skipped; decide on one")


@runtime_checkable
class Labeller(Protocol):
    """Someone or something that gives labels.

    Attributes:
        name: Who the pool remembers as the giver of the labels.
    """

    name: str

    def label(self, ids: Sequence[SampleId]) -> Answers:
        """Answer for some or all of the samples asked about, and for no others.

        Asking again gives the same answers, or more of them once they are there.

        Args:
            ids: Distinct ids [N].

        Raises:
            InputError: If an id is none that the labeller knows, or is there twice.
        """


class ScriptedLabeller:
    """Gives the answers of its script and leaves other samples unanswered.

    Args:
        answers: Labels by sample id.
        skip: The samples to skip.
        ids: All samples there are; asking about another is then an error. None knows no bounds.

    Raises:
        InputError: If a sample is both answered and skipped, or is none of ``ids``.
    """

    name = "script"

    def __init__(
        self,
        answers: Mapping[SampleId, Label],
        skip: Sequence[SampleId] = (),
        *,
        ids: Sequence[SampleId] | None = None,
    ) -> None:
        labels = {plain_id(sample): plain_label(label) for sample, label in answers.items()}
        self._script = Answers(labels, tuple(plain_ids(skip)))
        self._known = None if ids is None else frozenset(plain_ids(ids))
        self._check_known([*labels, *self._script.skipped])

    def label(self, ids: Sequence[SampleId]) -> Answers:
        """Return the script's answers about the queried samples."""
        asked = plain_ids(ids)
        self._check_known(asked)
        labels, skipped = self._script.labels, frozenset(self._script.skipped)
        return Answers(
            {i: copy_label(labels[i]) for i in asked if i in labels},
            tuple(i for i in asked if i in skipped),
        )

    def _check_known(self, ids: list[SampleId]) -> None:
        if self._known is None:
            return
        unknown = next((i for i in ids if i not in self._known), None)
        if unknown is not None:
            raise InputError(f"the script knows no sample {unknown!r}; ask with the pool's ids")


def apply(pool: Pool, answers: Answers, *, cycle: int, who: str) -> None:
    """Write answers into the pool; what exists already is skipped.

    Labels and skips are two entries of a journal. A crash between them leaves the labels, and
    applying the same answers again adds the skips. In a project both are one change.

    Raises:
        InputError: If a sample is not in the pool.
        PoolError: If an answer contradicts the pool; then nothing is written.
    """
    with pool.transaction():
        given = dict(zip(answers.labels, pool.normal(list(answers.labels.values())), strict=True))
        labels = {i: label for i, label in given.items() if not _has_label(pool, i, label)}
        skips = [sample for sample in answers.skipped if pool.state(sample) is not State.SKIPPED]
        # The pool checks the labels before it writes them; the skips must not fail after that.
        for sample in skips:
            if pool.state(sample) is State.LABELLED:
                raise PoolError(f"cannot skip sample {sample!r}: it is labelled; use unlabel first")
        pool.label(list(labels), list(labels.values()), cycle=cycle, who=who)
        pool.skip(skips, cycle=cycle, who=who)


def _has_label(pool: Pool, sample: SampleId, given: Label) -> bool:
    if pool.state(sample) is not State.LABELLED:
        return False
    present = pool.label_of(sample)
    if present != given:
        raise PoolError(
            f"sample {sample!r} is labelled {present!r} already and {given!r} was answered; "
            "use relabel to correct it"
        )
    return True
