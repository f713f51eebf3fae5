"""Labels of a pool's rows that several programs and people give, in a labelling project."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from steepest.core.seeds import SampleId
from steepest.labelling.project.ledger import ProjectPool
from steepest.loop.answers import LabelKinds, give
from steepest.loop.arrays import Marked
from steepest.loop.folder import open_project
from steepest.pool import State, Verb
from steepest.selecting.samples import as_samples

DOOR = "learner"


class SharedLabels:
    """The labels of all rows, in a project that is opened for each call and held for none.

    Args:
        folder: The project's folder, made if it is not there.
        rows: All samples [N, ...].
        count: How many.

    Raises:
        RunFolderError: If the folder belongs to other samples.
    """

    def __init__(self, folder: Path, rows: Any, count: int) -> None:  # noqa: ANN401
        self._folder, self._count = folder, count
        numbers = isinstance(rows, np.ndarray) and rows.dtype.kind in "fiu"
        self._samples = as_samples(rows) if numbers else None
        with self._open(checked=True):
            pass

    def give(self, labels: Marked) -> None:
        """Take in labels of the beginning, but those of rows that have one already."""
        given = {row: plain(label) for row, label in enumerate(labels) if label is not None}
        with self._open() as pool:
            give(pool, given, LabelKinds(pool))

    def read(self) -> tuple[Marked, npt.NDArray[np.bool_]]:
        """Return the label of each row [N], None where unlabelled, and which are skipped [N]."""
        labels, skipped = np.empty(self._count, dtype=object), np.zeros(self._count, dtype=bool)
        with self._open() as pool:
            ids, known = pool.labelled()
            for row, label in zip(ids, known, strict=True):
                labels[row] = label
            skipped[_rows(pool.ids(State.SKIPPED))] = True
        return labels, skipped

    def teach(self, rows: Sequence[int], labels: Marked, cycle: int) -> None:
        """Record the labels of rows, all or none; None is a row that cannot be labelled."""
        with self._open() as pool, pool.transaction():
            for row, given in zip(rows, labels, strict=True):
                state = pool.state(row)
                if given is None:
                    if state is State.LABELLED:
                        pool.unlabel([row], cycle=cycle, who=DOOR)
                    if state is not State.SKIPPED:
                        pool.skip([row], cycle=cycle, who=DOOR)
                    continue
                (label,) = pool.normal([plain(given)])
                if state is State.SKIPPED:
                    pool.unlabel([row], cycle=cycle, who=DOOR)
                if state is not State.LABELLED:
                    pool.label([row], [label], cycle=cycle, who=DOOR)
                elif pool.label_of(row) != label:
                    pool.relabel([row], [label], cycle=cycle, who=DOOR)

    def taken_elsewhere(self) -> list[int]:
        """Return the rows that others ask about now."""
        with self._open() as pool:
            ours = {event.id for event in pool.events() if event.verb is Verb.QUERY}
            free = set(pool.ids(State.UNLABELLED)) | ours
            return [row for row in _rows(pool.ids(State.QUERIED)) if row not in free]

    def ask(self, rows: Sequence[int], cycle: int, who: str) -> None:
        """Record that rows are queried; those already queried or answered are skipped."""
        with self._open() as pool, pool.transaction():
            new = [row for row in rows if pool.state(row) is State.UNLABELLED]
            pool.query(new, cycle=cycle, who=who)

    @contextmanager
    def _open(self, *, checked: bool = False) -> Iterator[ProjectPool]:
        ids, samples = list(range(self._count)), self._samples if checked else None
        with open_project(self._folder, ids, samples, DOOR) as pool:
            yield pool


def plain(label: Any) -> Any:  # noqa: ANN401
    """Return whole numbers as such: beside NaN, an array has them as fractions."""
    return int(label) if isinstance(label, float) and label.is_integer() else label


def _rows(ids: Sequence[SampleId]) -> list[int]:
    return [int(i) for i in ids]
