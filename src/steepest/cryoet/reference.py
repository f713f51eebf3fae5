"""Resampling one voxel at a time: slow and obviously right, to check the fast way against."""

from __future__ import annotations

import itertools
import math

import numpy as np
import torch
from torch import Tensor


def resample_slowly(
    maps: Tensor, rotations: Tensor, shifts_voxels: Tensor, size: int, zoom: float
) -> Tensor:
    """Do what ``resample`` does, in double precision, voxel by voxel.

    Returns:
        Densities, float64 [N, size, size, size].
    """
    result = torch.zeros(len(maps), size, size, size, dtype=torch.float64)
    for n, source in enumerate(maps.double().numpy()):
        rotation, shift = rotations[n].double().numpy(), shifts_voxels[n].double().numpy()
        for voxel in itertools.product(range(size), repeat=3):
            from_centre = np.array(voxel) - (size - 1) / 2 - shift
            place = rotation.T @ (from_centre * zoom) + (source.shape[0] - 1) / 2
            result[(n, *voxel)] = _interpolate(source, place.tolist())
    return result


def _interpolate(
    source: np.ndarray[tuple[int, ...], np.dtype[np.float64]], place: list[float]
) -> float:
    """Return the weighted mean of the eight voxels around a place; those outside are 0."""
    total = 0.0
    low = [math.floor(p) for p in place]
    for corner in itertools.product((0, 1), repeat=3):
        voxel = tuple(a + b for a, b in zip(low, corner, strict=True))
        weight = math.prod(1.0 - abs(p - v) for p, v in zip(place, voxel, strict=True))
        if all(0 <= v < side for v, side in zip(voxel, source.shape, strict=True)):
            total += weight * float(source[voxel])
    return total
