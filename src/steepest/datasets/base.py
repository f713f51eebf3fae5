"""What a data set of images is, and how to load one by name."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from steepest.datasets.sealed import SealedLabels
from steepest.errors import DataError
from steepest.registry import Registry

__all__ = ["DATASETS", "DATA_VARIABLE", "ImageSet", "SealedLabels", "load", "names"]

DATA_VARIABLE = "STEEPEST_DATA"
"""The environment variable that names the folder of data sets."""


@dataclass(frozen=True, eq=False)
class ImageSet:
    """Images and labels of one data set; a sample's id is its row.

    Attributes:
        name: The name it is loaded by.
        classes: The classes' names [K].
        train_images: uint8 [N, C, H, W].
        train_labels: Sealed labels [N].
        test_images: uint8 [M, C, H, W].
        test_labels: int64 [M].
        mean: Per-channel mean of the training images on the 0..1 scale [C].
        std: Per-channel standard deviation on the 0..1 scale [C].
        augmentation: The augmentation that suits it in training.
    """

    name: str
    classes: tuple[str, ...]
    train_images: Tensor
    train_labels: SealedLabels
    test_images: Tensor
    test_labels: Tensor
    mean: tuple[float, ...]
    std: tuple[float, ...]
    augmentation: str = "none"

    def __post_init__(self) -> None:
        self._check_images(self.train_images, len(self.train_labels), "training")
        self._check_images(self.test_images, len(self.test_labels), "test")
        if self.train_images.shape[1:] != self.test_images.shape[1:]:
            raise DataError(f"{self.name}: training and test images differ in shape")
        if self.test_labels.dtype != torch.int64 or self.test_labels.dim() != 1:
            raise DataError(f"{self.name}: test labels must be int64 [M]")
        classes = len(self.classes)
        if not self.train_labels.fit(classes) or not SealedLabels(self.test_labels).fit(classes):
            raise DataError(f"{self.name}: a label is outside 0..{classes - 1}")
        channels = self.train_images.shape[1]
        if len(self.mean) != channels or len(self.std) != channels or min(self.std) <= 0:
            raise DataError(f"{self.name}: mean and std need {channels} values each, std above 0")

    def __repr__(self) -> str:
        train, test = list(self.train_images.shape), list(self.test_images.shape)
        return f"ImageSet({self.name!r}, {len(self.classes)} classes, train {train}, test {test})"

    @property
    def ids(self) -> range:
        """The ids of the training samples."""
        return range(len(self.train_images))

    def _check_images(self, images: Tensor, labels: int, split: str) -> None:
        if images.dtype != torch.uint8 or images.dim() != 4:
            found = f"{images.dtype} {list(images.shape)}"
            raise DataError(f"{self.name}: {split} images must be uint8 [N, C, H, W], not {found}")
        if len(images) != labels or not labels:
            raise DataError(f"{self.name}: {len(images)} {split} images for {labels} labels")


DATASETS: Registry[Callable[[Path | None], ImageSet]] = Registry("data set", "steepest.datasets")
"""Functions that take the data folder and return an ``ImageSet``, by name."""


def load(name: str, root: Path | None = None) -> ImageSet:
    """Load a data set by name.

    Args:
        name: One of ``names()``.
        root: The folder of data sets; ``STEEPEST_DATA`` if not given.

    Raises:
        UnknownNameError: If there is no data set of that name.
        DataError: If its files are missing or damaged.
    """
    reader = DATASETS.get(name)
    if root is None and os.environ.get(DATA_VARIABLE):
        root = Path(os.environ[DATA_VARIABLE]).expanduser()
    return reader(root)


def names() -> list[str]:
    """Return the names of all data sets."""
    return DATASETS.names()
