"""Image data sets, loaded by name."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from steepest.core.files import expand_home
from steepest.core.registry import Registry
from steepest.data.sealed import Labels, SealedLabels, check_kind, fits
from steepest.data.streamed import Streamed
from steepest.errors import DataError

DATA_VARIABLE = "STEEPEST_DATA"
"""The environment variable that names the folder of data sets."""
Images = Tensor | Streamed
"""Images [N, C, H, W], volumes [N, C, D, H, W] or features [N, C], in memory or from disk."""


def data_root() -> Path | None:
    """Return the folder of data sets; None if the environment names none."""
    named = os.environ.get(DATA_VARIABLE)
    return expand_home(named) if named else None


@dataclass(frozen=True, eq=False)
class ImageSet:
    """Images or volumes, and labels, of one data set; a sample's id is its row.

    Read by rows, images are as they are scored and tested: not augmented.

    Attributes:
        name: The name it is loaded by.
        classes: The classes' names [K].
        train_images: uint8 or float32 [N, C, H, W], or volumes [N, C, D, H, W]; or features, as
            float32 [N, C].
        train_labels: Sealed labels [N, ...].
        test_images: The same [M, C, ...]; other sizes are for label maps alone.
        test_labels: [M, ...], of the same kind as those for training.
        mean: Per-channel mean of the training images, of bytes on the 0..1 scale [C].
        std: Per-channel standard deviation on the same scale [C].
        augmentation: The augmentation that suits it in training.
        task: The task that its labels are for.
    """

    name: str
    classes: tuple[str, ...]
    train_images: Images
    train_labels: SealedLabels
    test_images: Images
    test_labels: Labels
    mean: tuple[float, ...]
    std: tuple[float, ...]
    augmentation: str = "none"
    task: str = "classification"

    def __post_init__(self) -> None:
        self._check_images(self.train_images, len(self.train_labels), "training")
        self._check_images(self.test_images, len(self.test_labels), "test")
        self._check_labels()
        train, test = self.train_images, self.test_images
        if train.dtype != test.dtype:
            raise DataError(f"{self.name}: training images are {train.dtype}, test {test.dtype}")
        same = train.shape[1] == test.shape[1] and len(train.shape) == len(test.shape)
        if not same or (not self.train_labels.dense and train.shape[1:] != test.shape[1:]):
            raise DataError(f"{self.name}: training and test images differ in shape")
        channels = self.channels
        sizes = len(self.mean) == len(self.std) == channels
        if not sizes or not all(map(math.isfinite, self.mean)) or not _are_positive(self.std):
            raise DataError(f"{self.name}: mean and std need {channels} values each, std above 0")
        if train.dtype == torch.uint8 and max(self.mean) > 1:
            raise DataError(
                f"{self.name}: mean and std of bytes are on the 0..1 scale: divide them by 255"
            )

    def __repr__(self) -> str:
        train, test = list(self.train_images.shape), list(self.test_images.shape)
        return f"ImageSet({self.name!r}, {len(self.classes)} classes, train {train}, test {test})"

    @property
    def ids(self) -> range:
        """The ids of the training samples."""
        return range(len(self.train_images))

    @property
    def channels(self) -> int:
        """The number of channels of a sample."""
        return int(self.train_images.shape[1])

    def _check_images(self, images: Images, labels: int, split: str) -> None:
        known = images.dtype in (torch.uint8, torch.float32) and len(images.shape) in (4, 5)
        features = images.dtype == torch.float32 and len(images.shape) == 2
        if not known and not features:
            found = f"{images.dtype} {list(images.shape)}"
            raise DataError(
                f"{self.name}: {split} images must be uint8 or float32 [N, C, H, W] or "
                f"[N, C, D, H, W], or features float32 [N, C], not {found}"
            )
        if len(images) != labels or not labels:
            raise DataError(f"{self.name}: {len(images)} {split} images for {labels} labels")

    def _check_labels(self) -> None:
        classes = len(self.classes)
        try:
            check_kind(self.test_labels)
        except DataError as error:
            raise DataError(f"{self.name}: test {error}") from error
        if not self.train_labels.fit(classes) or not fits(self.test_labels, classes):
            raise DataError(
                f"{self.name}: a label is outside 0..{classes - 1}: number the {classes} classes "
                "from 0 on, and leave out samples that have none"
            )
        maps = self.test_labels
        if isinstance(maps, Tensor) and maps.dtype == torch.uint8 and bool((maps == 255).all()):
            raise DataError(f"{self.name}: no pixel of the test images has a class")
        if isinstance(maps, Tensor) and maps.dtype == torch.bool and not bool(maps.any()):
            raise DataError(
                f"{self.name}: no test sample has any class, so that no precision can be measured: "
                "test on others"
            )


def _are_positive(values: tuple[float, ...]) -> bool:
    return all(math.isfinite(value) and value > 0 for value in values)


DATASETS: Registry[Callable[..., ImageSet]] = Registry("data set", "steepest.data")
"""Functions ``reader(root, **options)`` that return an ``ImageSet``, by name."""
