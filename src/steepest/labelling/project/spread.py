"""Typical samples that are far from each other: the ones in the middle of clusters."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch

from steepest.core.seeds import derive
from steepest.strategies.algorithms.distances import squared_distances
from steepest.strategies.algorithms.k_means import k_means

_ROUNDS = 25


def choose_spread(features: npt.NDArray[np.float64], k: int, seed: int) -> list[int]:
    """Return k distinct rows: the middle of each of k clusters, largest cluster first.

    Args:
        features: [N, D].
        k: How many; all if there are fewer.
        seed: Decides where clusters begin.

    Returns:
        Rows [min(k, N)].
    """
    if len(features) <= k:
        return list(range(len(features)))
    rows = torch.from_numpy(np.ascontiguousarray(features))
    found = k_means(rows, k, derive(seed, "spread"), iterations=_ROUNDS)
    sizes = torch.bincount(found.labels, minlength=k)
    taken: list[int] = []
    free = torch.ones(len(rows), dtype=torch.bool)
    for cluster in sizes.sort(descending=True, stable=True).indices.tolist():
        gaps = squared_distances(rows, found.centres[cluster : cluster + 1])[:, 0]
        row = int(gaps.masked_fill(~free, torch.inf).argmin())
        taken.append(row)
        free[row] = False
    return taken
