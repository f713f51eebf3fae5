"""Data sets by name, one file each; from Python, any arrays or data sets of other libraries."""

from __future__ import annotations

from steepest.datasets.arrays import from_arrays
from steepest.datasets.base import DATASETS, Images, ImageSet, load, names
from steepest.datasets.folder import ImageFolder
from steepest.datasets.sealed import SealedLabels
from steepest.datasets.streamed import Reader, Streamed
from steepest.datasets.torch_set import from_hugging_face, from_torch

__all__ = [
    "DATASETS",
    "ImageFolder",
    "ImageSet",
    "Images",
    "Reader",
    "SealedLabels",
    "Streamed",
    "from_arrays",
    "from_hugging_face",
    "from_torch",
    "load",
    "names",
]
