"""Data sets by name: one file each, and a reader for a folder of images."""

from __future__ import annotations

from steepest.datasets.base import DATASETS, ImageSet, load, names
from steepest.datasets.folder import ImageFolder
from steepest.datasets.sealed import SealedLabels

__all__ = ["DATASETS", "ImageFolder", "ImageSet", "SealedLabels", "load", "names"]
