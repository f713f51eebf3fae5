"""Samples of a finished run as analyses read them: fixed, normalised, not augmented."""

from __future__ import annotations

from collections.abc import Sequence

from steepest.core.seeds import SampleId, derive, random_subset
from steepest.data.alterations import take
from steepest.influence import ImageExamples
from steepest.paper.finished_runs import FinishedRun
from steepest.paper.workspace import Workspace


def examples_of(
    work: Workspace, run: FinishedRun, ids: Sequence[SampleId], purpose: str | None = None
) -> ImageExamples:
    """Return some training samples, in the order of their ids.

    Args:
        work: Holds the data.
        run: Whose data set.
        ids: The samples.
        purpose: The purpose of reading their labels; None leaves them sealed.
    """
    data = work.data(run)
    images = take(data.train_images, [int(name) for name in ids])
    targets = None if purpose is None else work.labels(run, ids, purpose)
    return ImageExamples(images, targets, data.mean, data.std)


def held_out_examples(work: Workspace, run: FinishedRun, most: int | None = None) -> ImageExamples:
    """Return the test samples with their labels, or a fixed random part of them.

    Args:
        work: Holds the data.
        run: Whose data set.
        most: How many at most.
    """
    data = work.data(run)
    images, labels = data.test_images, data.test_labels
    if most is not None and most < len(images):
        drawn = random_subset(range(len(images)), most, work.seed, "test samples of analyses")
        rows = [int(row) for row in drawn]
        images, labels = take(images, rows), take(labels, rows)
    return ImageExamples(images, labels, data.mean, data.std)


def learnt_examples(work: Workspace, run: FinishedRun, cycle: int, most: int) -> ImageExamples:
    """Return the training data of a cycle's model, or a fixed random part of it.

    Args:
        work: Holds the data.
        run: Whose.
        cycle: Counted from 0.
        most: How many at most.
    """
    ids = work.labelled(run, cycle)
    seed = derive(work.seed, "curvature", run.seed, cycle)
    rows = random_subset(ids, most, seed)
    some = [ids[int(row)] for row in rows]
    return examples_of(work, run, some, "curvature of what the model was trained on")


def some_of(work: Workspace, ids: Sequence[SampleId], most: int, purpose: str) -> list[SampleId]:
    """Return a fixed random part of some samples, in their order."""
    return [ids[int(row)] for row in random_subset(ids, most, work.seed, purpose)]
