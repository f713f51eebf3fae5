"""CIFAR-10: 60,000 colour images of 32x32 in ten classes (A. Krizhevsky, 2009)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from steepest.data.arrays import from_arrays
from steepest.data.base import DATASETS, ImageSet
from steepest.data.cifar_batches import Split, decode_batches, open_official
from steepest.data.completeness import (
    check_labels,
    describe_remedy,
    need_root,
    remedy_added,
)
from steepest.data.shards import read_shards
from steepest.errors import DataError

CLASSES = (
    "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck",
)  # fmt: skip

MEAN = (0.4914, 0.4822, 0.4465)
STD = (0.2023, 0.1994, 0.2010)
"""Per channel, as the paper and most others use it; that of all pixels would be near 0.25."""

_FOLDER = "cifar-10-batches-py"
_ARCHIVE = "cifar-10-python.tar.gz"
_SHARDS = "cifar10"
_BATCHES = {
    "train": tuple(f"data_batch_{number}" for number in range(1, 6)),
    "test": ("test_batch",),
}
_REMEDY = describe_remedy("cifar10", f"{_FOLDER}, {_ARCHIVE} or {_SHARDS}/")

ReadSplit = Callable[[str], Split]


@dataclass(frozen=True)
class Edition:
    """Contents of a complete copy."""

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
    return from_arrays(
        *read("train"),
        *read("test"),
        CLASSES,
        name="cifar10",
        mean=MEAN,
        std=STD,
        layout="channels-first",
        augmentation="crop-flip",
    )


def open_cifar10(root: Path | None, edition: Edition) -> ReadSplit:
    """Return a function that reads ``"train"`` or ``"test"`` from what is under ``root``.

    Raises:
        DataError: If there is nothing to read.
    """
    counts = {"train": edition.train_count, "test": edition.test_count}
    with remedy_added(_REMEDY):
        where, read = _choose_source(need_root(root, "CIFAR-10"), edition)

    def read_checked(split: str) -> Split:
        with remedy_added(_REMEDY):
            images, labels = read(split)
            check_labels(labels, counts[split], len(CLASSES), f"{where} ({split})", balanced=True)
        return images, labels

    return read_checked


def _choose_source(root: Path, edition: Edition) -> tuple[Path, ReadSplit]:
    files = _BATCHES["train"] + _BATCHES["test"]
    official = open_official(root / _FOLDER, root / _ARCHIVE, edition.archive_md5, files)
    if official is not None:
        where, read_file = official
        return where, lambda split: decode_batches(read_file, _BATCHES[split], where)
    shards = root / _SHARDS
    if shards.is_dir():
        return shards, lambda split: read_shards(shards, split)
    raise DataError(f"{root}: CIFAR-10 is not there")
