"""Small trees of images for the tests of data sets on disk."""

from __future__ import annotations

import numpy as np
import torch
from PIL import Image


def noise(height=12, width=16, seed=0, channels=3):
    shape = (height, width, channels) if channels > 1 else (height, width)
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def save(path, array, **options):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.asarray(array)).save(path, **options)


def write_classes(folder, sizes, suffix="png", first_seed=0):
    """Write so many images for each class; returns their paths in order."""
    paths = []
    for name in sorted(sizes):
        (folder / name).mkdir(parents=True, exist_ok=True)
        for number in range(sizes[name]):
            path = folder / name / f"{name}_{number}.{suffix}"
            save(path, noise(12 + number, 16, first_seed + len(paths)))
            paths.append(path)
    return paths


def read_all(column, size=2, draws=None):
    return torch.cat(list(column.batches(list(torch.arange(len(column)).split(size)), draws)))


def uniform(column, seed=0):
    shape = len(column), column.draws
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
