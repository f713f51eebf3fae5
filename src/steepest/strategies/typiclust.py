"""TypiClust: the most typical sample of each cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from steepest.errors import InputError
from steepest.strategies.algorithms.k_means import k_means
from steepest.strategies.algorithms.round_robin import take_turns
from steepest.strategies.algorithms.typicality import most_typical
from steepest.strategies.base import Needs, Strategy, strategy
from steepest.strategies.choice import Choice, in_order
from steepest.strategies.feature_rows import all_feature_rows
from steepest.strategies.view import PoolView

Integers = npt.NDArray[np.intp]


@strategy("typiclust")
@dataclass(frozen=True)
class TypiClust(Strategy):
    """The most typical sample of each cluster, clusters without labels first.

    Candidates and labelled samples are clustered together, into as many clusters as there will
    be labels. Clusters take turns: those with the fewest labels first, of these the largest. The
    score of a sample among the M members of its cluster that are left, M_20 = min(20, M/2):

        score(x) = 1 / (mean distance to its M_20 nearest members + 1e-5)

    Small clusters wait until the others have no member left. Meant for the first, small budgets
    and for self-supervised features: give those as ``Support.features``.

    Attributes:
        max_clusters: The most clusters; above, each is visited several times.
        min_size: Clusters of fewer samples wait.
        neighbours: How many nearest members count at most.
        distances: ``"l2"``, as in the article, or ``"squared"``, as in its published code.
    """

    needs: ClassVar[Needs] = Needs.FEATURES | Needs.LABELLED

    max_clusters: int = 500
    min_size: int = 6
    neighbours: int = 20
    distances: Literal["l2", "squared"] = "l2"

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("max_clusters", "min_size", "neighbours"):
            if getattr(self, name) < 1:
                raise InputError(f"typiclust: {name} must be at least 1, not {getattr(self, name)}")

    def choose(self, pool: PoolView, k: int) -> Choice:
        """Return k samples, one cluster after another."""
        rows, known = all_feature_rows(pool, self.name)
        count = min(known + k, self.max_clusters)
        clusters = k_means(rows, count, pool.seed, progress=pool.progress)
        labels = clusters.labels.cpu().numpy()
        members = _members(labels[: len(pool)], count)
        turns = self._turns(labels, len(pool), count, k)
        shares = np.bincount(turns, minlength=count)
        found = {}
        with pool.progress.task("typical samples", int((shares > 0).sum())) as step:
            for cluster in np.flatnonzero(shares):
                found[cluster] = self._best(rows, members[cluster], int(shares[cluster]))
                step.advance()
        picks = [next(found[cluster]) for cluster in turns]
        return in_order([at for at, _ in picks], [value for _, value in picks])

    def _turns(self, labels: Integers, candidates: int, count: int, k: int) -> Integers:
        """Return the cluster of each pick [k]."""
        sizes = np.bincount(labels, minlength=count)
        free = np.bincount(labels[:candidates], minlength=count)
        order = np.lexsort((-sizes, sizes - free))
        large = order[sizes[order] >= self.min_size]
        small = order[sizes[order] < self.min_size]
        first = large[take_turns(free[large], k)]
        return np.concatenate([first, small[take_turns(free[small], k - len(first))]])

    def _best(self, rows: Tensor, members: Integers, count: int) -> zip[tuple[int, float]]:
        at, values = most_typical(
            rows[torch.from_numpy(members).to(rows.device)],
            count,
            neighbours=self.neighbours,
            squared=self.distances == "squared",
        )
        return zip(members[at].tolist(), values, strict=True)


def _members(labels: Integers, count: int) -> list[Integers]:
    """Return the positions of each cluster's candidates."""
    ends = np.cumsum(np.bincount(labels, minlength=count))
    return np.split(np.argsort(labels, kind="stable"), ends[:-1])
