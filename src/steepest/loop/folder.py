"""Storage of a loop: labels and rounds, in memory or in a labelling project."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from steepest.core.lock import FileLock
from steepest.core.seeds import SampleId
from steepest.errors import RunFolderError
from steepest.labelling.project.ledger import ProjectPool
from steepest.labelling.project.metadata import About
from steepest.labelling.project.opening import (
    BACKUP,
    PYTHON,
    begin_project,
    holds_project,
    open_pool,
)
from steepest.labelling.project.store import FILE_NAME
from steepest.loop.round import Round
from steepest.loop.same_samples import LOOKED_AT, check_same
from steepest.pool import Pool
from steepest.pool.entries import check_pool_ids
from steepest.selecting.samples import Samples


class LoopFolder:
    """The pool and the rounds of one loop; with a path, in a project that others may use too.

    Every change is on the disk when its call returns. Other files in the folder are left alone.

    Args:
        path: The project's folder, made if it is not there; None keeps everything in memory.
        ids: The samples of the loop [N].
        samples: What the ids stand for, if it is known.

    Raises:
        RunFolderError: If the folder belongs to other samples, or another loop is using it.
    """

    def __init__(
        self, path: Path | None, ids: Sequence[SampleId], samples: Samples | None = None
    ) -> None:
        self.records: list[Round] = []
        self.pool: Pool
        self._stored: ProjectPool | None = None
        self._lock: FileLock | None = None
        if path is None:
            self.pool = Pool.create(ids)
            return
        self._lock = _hold(path)
        try:
            self.pool = self._stored = open_project(path, check_pool_ids(ids), samples)
            self.records = [
                Round.from_table(table, f"{path}: round {number}")
                for number, table in self._stored.rounds().items()
            ]
        except BaseException:
            self.close()
            raise

    @property
    def shared(self) -> bool:
        """Whether others may change the pool at any moment."""
        return self._stored is not None

    def commit(self, record: Round) -> None:
        """Write a round down; from here on it has happened."""
        if self._stored is not None:
            self._stored.add_round(record.number, record.to_table())
        self.records.append(record)

    def close(self) -> None:
        """Let go of the folder; the pool can still be read."""
        if self._stored is not None:
            self._stored.close()
        if self._lock is not None:
            self._lock.release()


def open_project(
    path: Path, ids: Sequence[SampleId], samples: Samples | None, door: str = PYTHON
) -> ProjectPool:
    """Open the pool of a project over some samples, which is made if it is not there.

    Args:
        path: The project's folder.
        ids: The samples [N].
        samples: What the ids stand for, if it is known.
        door: Where questions are asked from.

    Raises:
        RunFolderError: If the folder belongs to other samples.
    """
    file = path / FILE_NAME
    if file.is_file() and not file.stat().st_size:
        raise RunFolderError(f"{file} is empty: restore it from a copy, or remove {path}")
    if not holds_project(path):
        if (path / LOOKED_AT).exists() or (path / BACKUP).exists():
            raise RunFolderError(
                f"{file} is gone, but a project was here: restore it from a copy, or remove {path}"
            )
        about = About(named=None, classes="free", numbered=isinstance(ids[0], int))
        begin_project(path, ids, about)
    pool = open_pool(path, door)
    try:
        _check_ids(path, pool.ids(), ids)
        check_same(path, samples)
    except BaseException:
        pool.close()
        raise
    return pool


def _hold(path: Path) -> FileLock:
    if path.exists() and not path.is_dir():
        raise RunFolderError(f"{path} is a file: choose a folder")
    return FileLock(path / "loop", shown=path)


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
