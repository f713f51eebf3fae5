"""What a loop keeps: labels and rounds, in memory or in a folder that outlives the process."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from steepest.core.journal import Journal
from steepest.core.seeds import SampleId
from steepest.errors import RunFolderError
from steepest.loop.round import Round
from steepest.loop.same_samples import check_same
from steepest.pool import Pool, Verb
from steepest.pool.entries import check_pool_ids
from steepest.selecting.samples import Samples

LABELS = "labels.jsonl"
ROUNDS = "rounds.jsonl"


class LoopFolder:
    """The pool and the rounds of one loop; with a path, held by one process.

    Both are journals: every change is on the disk when its call returns. Other files in the folder
    are left alone.

    Args:
        path: The folder, made if it is not there; None keeps everything in memory.
        ids: The samples of the loop [N].
        samples: What the ids stand for, if it is known.

    Raises:
        RunFolderError: If the folder belongs to other samples, or is in use.
    """

    def __init__(
        self, path: Path | None, ids: Sequence[SampleId], samples: Samples | None = None
    ) -> None:
        self.records: list[Round] = []
        self._journal: Journal | None = None
        if path is None:
            self.pool = Pool.create(ids)
            return
        if path.exists() and not path.is_dir():
            raise RunFolderError(f"{path} is a file: choose a folder")
        labels, rounds = path / LABELS, path / ROUNDS
        if rounds.exists() and not labels.exists():
            raise RunFolderError(f"{path} has rounds but no {LABELS}: bring it back from a copy")
        self.pool = Pool.open(labels) if labels.exists() else Pool.create(ids, labels)
        try:
            _check_ids(path, self.pool.ids(), check_pool_ids(ids))
            check_same(path, samples)
            self._journal = Journal(rounds)
            self.records = [Round.from_table(e, str(rounds)) for e in self._journal.entries]
            _check_past(path, self.pool, self.records)
        except BaseException:
            self.pool.close()
            raise

    def commit(self, record: Round) -> None:
        """Write a round down; from here on it has happened."""
        if self._journal is not None:
            self._journal.append(record.to_table())
        self.records.append(record)


def _check_ids(path: Path, known: Sequence[SampleId], given: Sequence[SampleId]) -> None:
    """Refuse other samples: an id would mean another one."""
    difference = set(known) ^ set(given)
    if difference:
        first = min(difference, key=str)
        place = "there" if first in set(known) else "in the pool"
        raise RunFolderError(
            f"{path} holds a loop over other samples ({first!r} is {place} alone): bring the pool "
            "back as it was, or choose another folder and give it the labels of this one by labels="
        )


def _check_past(path: Path, pool: Pool, records: Sequence[Round]) -> None:
    """Refuse journals of which one lacks what the other tells of."""
    touched: set[SampleId] = set()
    latest = 0
    for event in pool.events():
        touched.add(event.id)
        latest = max(latest, event.cycle) if event.verb is Verb.QUERY else latest
    numbers = [record.number for record in records]
    lacking = ""
    # A round asks before it is written down, so that one more may have begun.
    if numbers != list(range(1, len(records) + 1)) or latest > len(records) + 1:
        lacking = ROUNDS
    elif any(r.labelled > len(touched) or not touched.issuperset(r.asked) for r in records):
        lacking = LABELS
    if lacking:
        raise RunFolderError(
            f"{path}: lines of {lacking} are missing or twice: restore it from a copy, or choose "
            "another folder and give it the labels of this one by labels="
        )
