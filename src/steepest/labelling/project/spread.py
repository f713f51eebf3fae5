"""Typical samples that are far from each other: the ones in the middle of clusters."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch

from steepest.seeds import generator

_ROUNDS = 25

Features = npt.NDArray[np.float64]


def choose_spread(features: Features, k: int, seed: int) -> list[int]:
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
    centres = _begin(features, k, seed)
    nearest = _distances(features, centres).argmin(axis=1)
    for _ in range(_ROUNDS):
        for cluster in np.unique(nearest):
            centres[cluster] = features[nearest == cluster].mean(axis=0)
        moved = _distances(features, centres).argmin(axis=1)
        if (moved == nearest).all():
            break
        nearest = moved
    return _take_middles(features, centres, nearest)


def _begin(features: Features, k: int, seed: int) -> Features:
    """Return k rows as first centres, each likelier the farther it is from those before."""
    draws = torch.rand(k, generator=generator(seed, "spread"), dtype=torch.float64).numpy()
    chosen = [int(draws[0] * len(features))]
    gaps = _distances(features, features[chosen])[:, 0]
    for draw in draws[1:]:
        total = np.cumsum(gaps)
        if total[-1] > 0:
            row = min(int(np.searchsorted(total, draw * total[-1], "right")), len(features) - 1)
        else:  # all the rest are copies of what is chosen
            row = int(draw * len(features))
        chosen.append(row)
        gaps = np.minimum(gaps, _distances(features, features[[row]])[:, 0])
    return features[chosen].copy()


def _take_middles(
    features: Features, centres: Features, nearest: npt.NDArray[np.intp]
) -> list[int]:
    """Return the row next to each centre, and others where clusters are empty."""
    sizes = np.bincount(nearest, minlength=len(centres))
    taken: list[int] = []
    free = np.ones(len(features), dtype=bool)
    for cluster in np.argsort(-sizes, kind="stable"):
        gaps = _distances(features, centres[[cluster]])[:, 0]
        gaps[~free] = np.inf
        row = int(gaps.argmin())
        taken.append(row)
        free[row] = False
    return taken


def _distances(features: Features, centres: Features) -> Features:
    """Return squared distances [N, K]."""
    squares = (features**2).sum(axis=1)[:, None] + (centres**2).sum(axis=1)[None, :]
    gaps: Features = np.maximum(squares - 2.0 * features @ centres.T, 0.0)
    return gaps
