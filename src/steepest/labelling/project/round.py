"""The state of one round of training and picking, and its progress."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from torch import Tensor

from steepest.core.progress import Step
from steepest.core.seeds import derive
from steepest.errors import RunFolderError
from steepest.labelling.project.classes import ClassList
from steepest.labelling.project.inputs import FeatureFinder, SampleFeatures, read_squares
from steepest.labelling.project.settings import Settings, load_settings
from steepest.labelling.project.source import Source
from steepest.labelling.project.store import Store


class Round:
    """All that one round needs to know.

    Args:
        store: The project's file.
        source: The location of the samples.
        token: Whose training it is.
        features: Finds the features of samples; None makes one that lasts for this round.
    """

    def __init__(
        self, store: Store, source: Source, token: str, features: FeatureFinder | None = None
    ) -> None:
        self.store = store
        self.source = source
        self.token = token
        self.progress = StoreProgress(store, token)
        with store.reading() as connection:
            self.settings = (load_settings(connection) or Settings()).as_net()
            labelled = connection.execute("SELECT count(*) FROM images WHERE labels IS NOT NULL")
            self.answers = self.settings.answers_per_round(labelled.fetchone()[0])
            self.folds = max(self.settings.folds, _folds_of(connection, token))
            self.classes = ClassList.load(connection, multi_label=self.settings.multi_label)
            self.number = int(
                connection.execute("SELECT ifnull(max(number), 0) + 1 FROM batches").fetchone()[0]
            )

        self._features = features or FeatureFinder(store, source)

    @property
    def probes(self) -> bool:
        """Whether models learn from features."""
        return self.settings.way == "probe"

    @property
    def features(self) -> SampleFeatures:
        """The features of samples, where models learn from them."""
        return self._features.find(self.settings)

    @property
    def seed(self) -> int:
        """Decides the draws of this round alone."""
        return derive(self.settings.seed, "round", self.number)

    def read(self, ids: Sequence[str], side: int | None = None) -> tuple[list[int], Tensor]:
        """Return the places that could be read, and the models' inputs.

        Args:
            ids: The samples.
            side: The side of square images in pixels; None for the inputs of models.
        """
        if self.probes and side is None:
            return self.features.read(ids, self.progress)
        wanted = self.settings.side if side is None else side
        return read_squares(self.store, self.source, ids, wanted, self.settings, self.progress)


def _folds_of(connection: sqlite3.Connection, token: str) -> int:
    """Return how many further models were requested with this very training."""
    row = connection.execute("SELECT folds FROM trainings WHERE token = ?", (token,)).fetchone()
    return 0 if row is None else int(row["folds"])


_SECONDS_BETWEEN = 0.5


class StoreProgress:
    """Writes stage and amount into the row of a training, at most twice a second.

    Args:
        store: The project's file.
        token: Whose training it is.
    """

    def __init__(self, store: Store, token: str) -> None:
        self._store = store
        self._token = token

    @contextmanager
    def task(self, description: str, total: int) -> Iterator[Step]:
        """Start a piece of work.

        Raises:
            RunFolderError: If another process has taken over.
        """
        step = _Row(self._store, self._token, description, total)
        step.write()
        yield step
        step.write()


class _Row:
    def __init__(self, store: Store, token: str, stage: str, total: int) -> None:
        self._store = store
        self._token = token
        self._stage = stage
        self._total = total
        self._done = 0
        self._written = 0.0

    def advance(self, amount: int = 1, note: str = "") -> None:  # noqa: ARG002
        self._done += amount
        if time.monotonic() - self._written >= _SECONDS_BETWEEN:
            self.write()

    def write(self) -> None:
        self._written = time.monotonic()
        with self._store.writing() as connection:
            changed = connection.execute(
                "UPDATE trainings SET stage = ?, done = ?, total = ? "
                "WHERE token = ? AND status = 'running'",
                (self._stage, self._done, self._total, self._token),
            ).rowcount
        if not changed:
            raise RunFolderError("another process has taken over this training")
