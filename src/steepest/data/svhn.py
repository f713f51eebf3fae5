"""SVHN: 99,289 house-number digits of 32x32 (Y. Netzer et al., 2011), cropped digits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from steepest.data.arrays import from_arrays
from steepest.data.base import DATASETS, ImageSet
from steepest.data.catalogue import Holding, Layout, OfficialFile, Source, add_to_catalogue
from steepest.data.cifar10 import Split
from steepest.data.copy_checks import check_labels, check_md5, complete_copy
from steepest.errors import DataError

CLASSES = tuple("0123456789")

_FILES = {"train": "train_32x32.mat", "test": "test_32x32.mat"}

HOLDING = add_to_catalogue(
    Holding(
        name="svhn",
        title="SVHN: house numbers from street views, cropped to 32x32",
        task="classification",
        train_count=73_257,
        test_count=26_032,
        classes=10,
        source=Source.DOWNLOAD,
        terms="its page says: for non-commercial use only",
        site="http://ufldl.stanford.edu/housenumbers/",
        files=(
            OfficialFile(
                name="train_32x32.mat",
                url="http://ufldl.stanford.edu/housenumbers/train_32x32.mat",
                md5="e26dedcc434d2e4c54c9b2d4a06d8373",
                size_bytes=182_040_794,
            ),
            OfficialFile(
                name="test_32x32.mat",
                url="http://ufldl.stanford.edu/housenumbers/test_32x32.mat",
                md5="eb5a983be6a315427106f1b164d9cef3",
                size_bytes=64_275_384,
            ),
        ),
        layouts=(
            Layout(("train_32x32.mat", "test_32x32.mat")),
            Layout(("svhn/train_32x32.mat", "svhn/test_32x32.mat")),
        ),
        holds=" and ".join(_FILES.values()),
    )
)


@DATASETS.register("svhn")
def svhn(root: Path | None = None) -> ImageSet:
    """Load SVHN from its official files, under ``root`` or ``root/svhn``.

    Mirrored digits are not digits, yet the paper's line of work mirrors them in training, and
    so does the augmentation that is named here.

    Raises:
        DataError: If a file is missing or is not the official one.
    """
    with complete_copy(HOLDING, root) as place:
        folder = _find_folder(place)
        train = _read_split(folder / _FILES["train"], HOLDING.train_count)
        test = _read_split(folder / _FILES["test"], HOLDING.test_count)
    return from_arrays(
        *train,
        *test,
        CLASSES,
        name="svhn",
        mean=(0.4310, 0.4302, 0.4463),
        std=(0.1965, 0.1984, 0.1992),
        layout="channels-first",
        augmentation="crop-flip",
    )


def _find_folder(root: Path) -> Path:
    for folder in (root, root / "svhn"):
        if any((folder / name).is_file() for name in _FILES.values()):
            return folder
    raise DataError(f"{root}: SVHN is not there")


def _read_split(path: Path, count: int) -> Split:
    """Return images [N, 3, 32, 32] and digits [N]."""
    if not path.is_file():
        raise DataError(f"{path}: missing")
    check_md5(path, HOLDING.md5_of(path.name))
    content = _load(path)
    images, labels = content.get("X"), content.get("y")
    if not isinstance(images, np.ndarray) or not isinstance(labels, np.ndarray):
        raise DataError(f"{path}: no images X and labels y in it")
    square = images.dtype == np.uint8 and images.ndim == 4 and images.shape[:3] == (32, 32, 3)
    numbers = labels.dtype.kind in "iu" and labels.size == images.shape[-1]
    if not square or not numbers:
        raise DataError(f"{path}: images and labels do not match")
    digits = labels.reshape(-1).astype(np.int64)
    # The files count from 1, with 10 for the digit 0.
    digits = np.where(digits == 0, -1, np.where(digits == 10, 0, digits))
    check_labels(digits, count, len(CLASSES), f"{path}")
    return np.ascontiguousarray(images.transpose(3, 2, 0, 1)), digits


def _load(path: Path) -> dict[str, Any]:
    from scipy.io import loadmat

    try:
        content: dict[str, Any] = loadmat(path)
    except Exception as error:  # damaged bytes make the reader raise almost anything
        raise DataError(f"{path}: truncated or damaged") from error
    return content
