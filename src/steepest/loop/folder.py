"""What a loop keeps: labels and rounds, in memory or in a folder that outlives the process."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from steepest.errors import RunFolderError
from steepest.journal import Journal
from steepest.loop.round import Round
from steepest.pool import Pool
from steepest.pool.entries import check_pool_ids
from steepest.seeds import SampleId

LABELS = "labels.jsonl"
ROUNDS = "rounds.jsonl"


class LoopFolder:
    """The pool and the rounds of one loop; with a path, held by one process.

    Both files are journals: every change is on the disk when its call returns. Other files in the
    folder are left alone.

    Args:
        path: The folder, made if it is not there; None keeps everything in memory.
        ids: The samples of the loop [N].

    Raises:
        RunFolderError: If the folder belongs to other samples, or is in use.
    """

    def __init__(self, path: Path | None, ids: Sequence[SampleId]) -> None:
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
            self._journal = Journal(rounds)
            self.records = [Round.from_table(e, str(rounds)) for e in self._journal.entries]
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
