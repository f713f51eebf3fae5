"""From a labeller's answers to the pool, safe to repeat after a crash."""

from __future__ import annotations

from steepest.core.seeds import SampleId
from steepest.errors import PoolError
from steepest.labelling.answers import Answers
from steepest.pool.pool import Pool
from steepest.pool.states import State
from steepest.pool.values import Label


def apply(pool: Pool, answers: Answers, *, cycle: int, who: str) -> None:
    """Write answers into the pool; what is there already is passed over.

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
