"""The pool as a model sees it while choosing: normalised, not augmented, without labels."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from steepest.data import ImageSet
from steepest.selecting.options import BatchSize
from steepest.selecting.samples import Samples
from steepest.training.evaluate import normalised_batches

_SMALL = 64 * 64
_POSITIONS = {"cpu": 1 << 18, "cuda": 1 << 22}
"""Pixels or voxels whose gradients are in flight at most, by device."""


def pool_view(data: ImageSet) -> Samples:
    """Return the training images as a pool."""

    def load(positions: Sequence[int], size: int) -> Iterator[Tensor]:
        return normalised_batches(data.train_images, positions, size, data.mean, data.std)

    return Samples(data.ids, load)


def scored_at_once(data: ImageSet, device: torch.device) -> BatchSize:
    """Return how many samples to score together; small ones are left to the scorer."""
    positions = math.prod(data.train_images.shape[2:])
    if positions <= _SMALL:
        return "auto"
    return max(1, _POSITIONS.get(device.type, _POSITIONS["cpu"]) // positions)
