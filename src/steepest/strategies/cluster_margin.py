"""Cluster-Margin: small margins, spread over the clusters of the pool."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from steepest.core.seeds import keyed_uniform
from steepest.errors import InputError
from steepest.strategies.algorithms import top_k
from steepest.strategies.algorithms.k_means import micro_clusters
from steepest.strategies.algorithms.linkage import average_linkage, cut
from steepest.strategies.algorithms.round_robin import take_turns
from steepest.strategies.base import Needs, Strategy, strategy
from steepest.strategies.batch import Batch
from steepest.strategies.choice import Choice
from steepest.strategies.feature_rows import finite_rows
from steepest.strategies.margin import Margin
from steepest.strategies.view import PoolView

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.intp]


@strategy("cluster-margin")
@dataclass(frozen=True)
class ClusterMargin(Strategy):
    """The candidates of smallest margin, taken in turns from the clusters that they are in.

    Candidates are clustered by average linkage. Of the ratio · k with the smallest margins,

        score(x) = p_(2) − p_(1)

    (for dense outputs the mean over positions), each cluster gives one in each round, clusters
    with the fewest of them first, until there are k.

    Attributes:
        ratio: How many candidates of smallest margin come into question, as a multiple of k. 1.25
            is what the article takes for small data sets, 10 for the largest.
        threshold: Clusters are joined if their members' mean distance is no more; ``"auto"``
            leaves k clusters.
        picks: Which member a cluster gives: that of smallest ``"margin"``, or any: ``"random"``.
        max_points: With more candidates, k-means first makes so many micro-clusters, which
            average linkage then joins.
    """

    needs: ClassVar[Needs] = Needs.LOGITS | Needs.FEATURES

    ratio: float = 1.25
    threshold: float | Literal["auto"] = "auto"
    picks: Literal["margin", "random"] = "margin"
    max_points: int = 5000

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= self.ratio < math.inf:
            raise InputError(f"cluster-margin: ratio must be at least 1, not {self.ratio}")
        if self.threshold != "auto" and not self.threshold >= 0:
            raise InputError(
                f"cluster-margin: threshold must be 'auto' or at least 0, not {self.threshold}"
            )
        if not 1 <= self.max_points <= 20_000:
            raise InputError(
                f"cluster-margin: max_points must be from 1 to 20000, not {self.max_points}: "
                "average linkage takes a table of all pairs"
            )

    def choose(self, pool: PoolView, k: int) -> Choice:
        """Return k samples of small margin, in the order of the clusters' turns."""
        columns = pool.collect(_features_and_margins, f"features for {self.name}")
        rows = finite_rows(columns["features"], pool.ids).to(pool.device)
        margins = finite_rows(columns["margins"][:, None], pool.ids)[:, 0].double().numpy()
        clusters = self._clusters(rows, k, pool)
        wanted = min(len(pool), max(k, math.ceil(self.ratio * k)))
        best = top_k(margins, pool.ids, wanted, pool.seed)
        if self.picks == "random":
            draws = keyed_uniform(pool.seed, "cluster-margin", pool.ids)[:, 0]
            inside = best[np.argsort(draws[best], kind="stable")]
        else:
            inside = best
        chosen = _in_turns(clusters, best, inside, k)
        return Choice(chosen, margins[chosen])

    def _clusters(self, rows: Tensor, k: int, pool: PoolView) -> Integers:
        """Return the cluster of each candidate [N]."""
        micro = micro_clusters(rows, self.max_points, pool.seed, progress=pool.progress)
        labels = micro.labels.cpu().numpy()
        used, labels, sizes = np.unique(labels, return_inverse=True, return_counts=True)
        centres = micro.centres[torch.from_numpy(used).to(rows.device)].double().cpu().numpy()
        tree = average_linkage(centres, sizes.astype(np.float64))
        if self.threshold == "auto":
            joined = cut(tree, clusters=k)
        else:
            joined = cut(tree, height=self.threshold)
        return joined[labels]


def _in_turns(clusters: Integers, best: Integers, inside: Integers, k: int) -> Integers:
    """Return k positions, one from each cluster in each round.

    Args:
        clusters: Of all candidates [N].
        best: Those in question, smallest margin first [M].
        inside: The same in the order in which clusters give them.
        k: At most M.
    """
    used, first, sizes = np.unique(clusters[best], return_index=True, return_counts=True)
    # Of clusters of equal size the one with the smallest margin comes first.
    order = np.lexsort((first, sizes))
    place = np.zeros(len(used), dtype=np.intp)
    place[order] = np.arange(len(used))
    groups = place[np.searchsorted(used, clusters[inside])]
    by_group = inside[np.argsort(groups, kind="stable")]
    starts = np.concatenate([[0], np.cumsum(sizes[order])[:-1]])
    turns = take_turns(sizes[order], k)
    seen = np.zeros(len(used), dtype=np.intp)
    chosen = np.empty(k, dtype=np.intp)
    for turn, group in enumerate(turns):
        chosen[turn] = by_group[starts[group] + seen[group]]
        seen[group] += 1
    return chosen


def _features_and_margins(batch: Batch) -> dict[str, Tensor]:
    # Features first: they bring the logits along.
    features = batch.features
    return {"features": features, "margins": Margin().score(batch)}
