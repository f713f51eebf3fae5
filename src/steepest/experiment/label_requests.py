"""Questions to the labeller of a run, and checks on the answers."""

from __future__ import annotations

from collections.abc import Sequence

from steepest.core.seeds import SampleId
from steepest.core.wording import counted
from steepest.errors import InputError
from steepest.experiment.setup import Setup
from steepest.labelling import Labeller
from steepest.labelling.labeller import apply
from steepest.loop.answers import ask_for
from steepest.pool import Pool, State
from steepest.pool.values import plain_labels


def check_labeller(who: object) -> None:
    """Raise if an object is not a labeller.

    Raises:
        InputError: Saying what a labeller has.
    """
    if not isinstance(who, Labeller):
        raise InputError(
            f"the labeller is a {type(who).__name__} without a name or without label(ids): give an "
            "object with both, whose label returns Answers"
        )


def ask(setup: Setup, pool: Pool, labeller: Labeller, ids: Sequence[SampleId], cycle: int) -> None:
    """Request labels; samples already requested or answered are skipped.

    Args:
        setup: Its task says what a label can be, its strategy chose.
        pool: Where answers are kept.
        labeller: Answers the queries.
        ids: The samples in question.
        cycle: For which cycle; 0 is the initial set.

    Raises:
        InputError: If an answer is about something else, or is none; it is not taken in.
    """
    new = [i for i in ids if pool.state(i) == State.UNLABELLED]
    pool.query(new, cycle=cycle, who=setup.strategy.name if cycle else "initial set")
    open_ids = [i for i in ids if pool.state(i) == State.QUERIED]
    for answers in ask_for(labeller, open_ids):
        labels = plain_labels(list(answers.labels.values()))
        if labels and not setup.data.train_labels.dense:
            # A label that is no class, once kept, would stop the run for good.
            setup.task.targets(labels)
        apply(pool, answers, cycle=cycle, who=labeller.name)


def check_begun(pool: Pool, labeller: Labeller) -> None:
    """Refuse to train before anything is labelled.

    Raises:
        InputError: Saying what to do, which depends on whether answers may still come.
    """
    counts = pool.counts()
    if counts[State.LABELLED]:
        return
    if waiting := counts[State.QUERIED]:
        raise InputError(
            f"nothing is labelled yet: {labeller.name} gave no label to the "
            f"{counted(waiting, 'sample')} that it was asked about; run again once it has answers"
        )
    raise InputError(
        f"nothing is labelled yet: {labeller.name} skipped all {counts[State.SKIPPED]} samples of "
        "the initial set; begin in another folder with a larger loop.initial or another labeller"
    )
