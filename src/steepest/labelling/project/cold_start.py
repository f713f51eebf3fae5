"""Typical pictures that differ from each other, chosen without a pretrained net."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch

from steepest.core.seeds import derive
from steepest.strategies.algorithms.distances import squared_distances
from steepest.strategies.algorithms.k_means import k_means

SIDE = 32
"""The side in pixels of the squares that are looked at."""

_GRID = 8
_SHADES = 8
_DIRECTIONS = 8
_QUARTERS = 2

Features = npt.NDArray[np.float64]


def describe(squares: npt.NDArray[np.uint8]) -> Features:
    """Return features of pictures: coarse brightness, shares of colours, directions of edges.

    Each of the three parts is centred and scaled as a whole, so that all weigh the same.

    Args:
        squares: Pixels [N, 3, 32, 32].

    Returns:
        Features [N, 120].
    """
    pixels = squares.astype(np.float64) / 255.0
    grey = pixels.mean(axis=1)
    parts = [_coarse(grey), _colours(pixels), _edges(grey)]
    return np.concatenate([_balance(part) for part in parts], axis=1)


def _coarse(grey: Features) -> Features:
    step = SIDE // _GRID
    blocks = grey.reshape(len(grey), _GRID, step, _GRID, step)
    coarse: Features = blocks.mean(axis=(2, 4)).reshape(len(grey), -1)
    return coarse


def _colours(pixels: Features) -> Features:
    shades = np.minimum((pixels * _SHADES).astype(np.int64), _SHADES - 1)
    flat = shades.reshape(len(pixels), 3, -1)
    shares = [(flat == shade).mean(axis=2) for shade in range(_SHADES)]
    return np.concatenate(shares, axis=1)


def _edges(grey: Features) -> Features:
    """Return the strength of edges by direction in each quarter of the picture."""
    down = np.diff(grey, axis=1)[:, :, :-1]
    across = np.diff(grey, axis=2)[:, :-1, :]
    strength = np.hypot(down, across)
    turn = np.arctan2(down, across) / (2 * np.pi) % 1.0
    direction = np.minimum((turn * _DIRECTIONS).astype(np.int64), _DIRECTIONS - 1)
    half = grey.shape[1] // _QUARTERS
    sums = []
    for top in (slice(0, half), slice(half, None)):
        for left in (slice(0, half), slice(half, None)):
            here, weight = direction[:, top, left], strength[:, top, left]
            sums += [(weight * (here == d)).mean(axis=(1, 2)) for d in range(_DIRECTIONS)]
    return np.stack(sums, axis=1)


def _balance(part: Features) -> Features:
    centred = part - part.mean(axis=0)
    scale = np.sqrt((centred**2).sum(axis=1).mean())
    balanced: Features = centred / max(float(scale), 1e-12)
    return balanced


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
