"""The inputs of one round of training and picking."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from torch import Tensor

from steepest.core.seeds import derive
from steepest.labelling.project.classes import ClassList
from steepest.labelling.project.sample_features import FeatureFinder, SampleFeatures
from steepest.labelling.project.settings import Settings, load_settings
from steepest.labelling.project.source import Source
from steepest.labelling.project.squares import read_squares
from steepest.labelling.project.store import Store
from steepest.labelling.project.store_progress import StoreProgress


class Round:
    """All that one round needs to know.

    Args:
        store: The project's file.
        source: Where the samples are.
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
        """Return the places that could be read, and what models learn from.

        Args:
            ids: The samples.
            side: Asks for squares of pixels of that side; None for what models learn from.
        """
        if self.probes and side is None:
            return self.features.read(ids, self.progress)
        wanted = self.settings.side if side is None else side
        return read_squares(self.store, self.source, ids, wanted, self.settings, self.progress)


def _folds_of(connection: sqlite3.Connection, token: str) -> int:
    """Return how many further models were asked for with this very training."""
    row = connection.execute("SELECT folds FROM trainings WHERE token = ?", (token,)).fetchone()
    return 0 if row is None else int(row["folds"])
