"""CIFAR-10: 60,000 colour images of 32x32 in ten classes (A. Krizhevsky, 2009)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from steepest.datasets.base import DATA_VARIABLE, DATASETS, ImageSet
from steepest.datasets.cifar_batches import Split, decode_batches, read_archive, read_folder
from steepest.datasets.sealed import SealedLabels
from steepest.datasets.shards import read_shards
from steepest.errors import DataError

CLASSES = (
    "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck",
)  # fmt: skip

_FOLDER = "cifar-10-batches-py"
_ARCHIVE = "cifar-10-python.tar.gz"
_SHARDS = "cifar10"
_BATCHES = {
    "train": tuple(f"data_batch_{number}" for number in range(1, 6)),
    "test": ("test_batch",),
}
_ALL_BATCHES = _BATCHES["train"] + _BATCHES["test"]
_REMEDY = (
    f"get it again, or set {DATA_VARIABLE} to the folder that holds "
    f"{_FOLDER}, {_ARCHIVE} or {_SHARDS}/"
)

ReadSplit = Callable[[str], Split]


@dataclass(frozen=True)
class Edition:
    """What a complete copy holds."""

    train_count: int = 50_000
    test_count: int = 10_000
    archive_md5: str = "c58f30108f718f92721af3b95e74349a"


@DATASETS.register("cifar10")
def cifar10(root: Path | None = None) -> ImageSet:
    """Load CIFAR-10 from its official files or from shards.

    Raises:
        DataError: If none of them is under ``root``, or they are incomplete or damaged.
    """
    return read_cifar10(root, Edition())


def read_cifar10(root: Path | None, edition: Edition) -> ImageSet:
    """Load an edition of CIFAR-10."""
    read = open_cifar10(root, edition)
    train_images, train_labels = read("train")
    test_images, test_labels = read("test")
    return ImageSet(
        name="cifar10",
        classes=CLASSES,
        train_images=torch.from_numpy(train_images),
        train_labels=SealedLabels(torch.from_numpy(train_labels)),
        test_images=torch.from_numpy(test_images),
        test_labels=torch.from_numpy(test_labels),
        mean=(0.4914, 0.4822, 0.4465),
        std=(0.2023, 0.1994, 0.2010),
        augmentation="crop-flip",
    )


def open_cifar10(root: Path | None, edition: Edition) -> ReadSplit:
    """Return a function that reads ``"train"`` or ``"test"`` from what is under ``root``.

    Raises:
        DataError: If there is nothing to read.
    """
    if root is None:
        raise DataError(f"CIFAR-10 is not in the package; {_REMEDY}")
    counts = {"train": edition.train_count, "test": edition.test_count}
    with _remedy_added():
        where, read = _choose_source(root, edition)

    def read_checked(split: str) -> Split:
        with _remedy_added():
            images, labels = read(split)
            _check_counts(labels, counts[split], f"{where} ({split})")
        return images, labels

    return read_checked


def _choose_source(root: Path, edition: Edition) -> tuple[Path, ReadSplit]:
    folder, archive, shards = root / _FOLDER, root / _ARCHIVE, root / _SHARDS
    if folder.is_dir():
        read_batch = read_folder(folder, _ALL_BATCHES)
        return folder, lambda split: decode_batches(read_batch, _BATCHES[split], folder)
    if archive.is_file():
        members = read_archive(archive, edition.archive_md5, _ALL_BATCHES)
        return archive, lambda split: decode_batches(members.__getitem__, _BATCHES[split], archive)
    if shards.is_dir():
        return shards, lambda split: read_shards(shards, split)
    raise DataError(f"{root}: CIFAR-10 is not there")


@contextmanager
def _remedy_added() -> Iterator[None]:
    try:
        yield
    except DataError as error:
        raise DataError(f"{error}; {_REMEDY}") from error


def _check_counts(labels: npt.NDArray[np.int64], count: int, where: str) -> None:
    classes = len(CLASSES)
    if len(labels) != count:
        raise DataError(f"{where}: {len(labels)} images instead of {count}")
    inside = ((labels >= 0) & (labels < classes)).all()
    if not inside or (np.bincount(labels, minlength=classes) != count // classes).any():
        raise DataError(f"{where}: the {classes} classes are not of equal size")
