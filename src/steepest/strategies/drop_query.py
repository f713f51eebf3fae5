"""DropQuery: candidates whose class changes when features are dropped (Gupte and others, 2024)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from steepest.core.seeds import keyed_uniform
from steepest.errors import InputError
from steepest.modules.last_layer import last_layer_inputs
from steepest.strategies.algorithms.k_means import k_means
from steepest.strategies.algorithms.top_k import top_k
from steepest.strategies.base import Needs, Strategy, strategy
from steepest.strategies.batch import Batch
from steepest.strategies.choice import Choice
from steepest.strategies.feature_rows import finite_rows
from steepest.strategies.view import PoolView


@strategy("drop-query")
@dataclass(frozen=True)
class DropQuery(Strategy):
    """Samples whose class changes when features are dropped, one from each of k clusters.

    What the last layer reads is dropped at random, so many times:

        score(x) = share of the draws whose likeliest class is not that without dropping

    Candidates of a score above 0.5 are clustered by their features into k clusters, and of each
    the one nearest to the centre is taken. If they are fewer than k, those of the next highest
    scores complete the choice.

    Attributes:
        draws: How many times features are dropped.
        rate: The share of the features that is dropped.
    """

    needs: ClassVar[Needs] = Needs.LOGITS | Needs.FEATURES
    dense: ClassVar[bool] = False

    draws: int = 3
    rate: float = 0.75

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.draws < 1:
            raise InputError(f"drop-query: draws must be at least 1, not {self.draws}")
        if not 0 < self.rate < 1:
            raise InputError(f"drop-query: rate must be between 0 and 1, not {self.rate}")

    def choose(self, pool: PoolView, k: int) -> Choice:
        """Return k samples, those of the largest clusters first."""
        found = pool.collect(self._measure, f"features for {self.name}")
        rows = finite_rows(found["features"], pool.ids)
        scores = found["scores"].numpy()
        unsure = np.flatnonzero(scores > 0.5)
        if len(unsure) <= k:
            chosen = top_k(scores, pool.ids, k, pool.seed)
            return Choice(chosen, scores[chosen])
        candidates = rows[torch.from_numpy(unsure)].to(pool.device)
        clusters = k_means(candidates, k, pool.seed, progress=pool.progress)
        squares = (candidates - clusters.centres[clusters.labels]).square().sum(1).cpu().numpy()
        labels = clusters.labels.cpu().numpy()
        by_distance = np.lexsort((squares, labels))
        first = by_distance[np.unique(labels[by_distance], return_index=True)[1]]
        first = first[np.argsort(-np.bincount(labels)[labels[first]], kind="stable")]
        # Copies leave clusters empty: then the nearest of the rest.
        rest = np.setdiff1d(np.argsort(squares, kind="stable"), first, assume_unique=True)
        chosen = unsure[np.concatenate([first, rest])[:k]]
        return Choice(chosen, scores[chosen])

    def check(self, pool: PoolView) -> None:
        """Measure a few samples, so that errors come early."""
        pool.collect(self._measure, f"trying {self.name}")

    def _measure(self, batch: Batch) -> Mapping[str, Tensor]:
        """Return features [N, D] and the shares of draws that change the class [N]."""
        self.check_positions(batch.logits)
        _, layer, read = last_layer_inputs(batch.model, batch.inputs)
        classes = batch.logits.argmax(1)
        size = read.shape[1]
        draws = keyed_uniform(batch.seed, "drop-query", batch.ids, self.draws * size)
        kept = torch.from_numpy(draws).view(-1, self.draws, size) >= self.rate
        with torch.no_grad():
            dropped = read[:, None] * kept.to(read) / (1 - self.rate)
            logits = batch.task.distributions(layer(dropped.flatten(0, 1)))
        changed = logits.argmax(1).view(-1, self.draws) != classes[:, None]
        return {"features": batch.features, "scores": changed.double().mean(1)}
