"""CIFAR-100: 60,000 colour images of 32x32 in a hundred classes (A. Krizhevsky, 2009)."""

from __future__ import annotations

from pathlib import Path
from types import MappingProxyType

from steepest.data import cifar10
from steepest.data.arrays import from_arrays
from steepest.data.base import DATASETS, ImageSet
from steepest.data.catalogue import Holding, Layout, OfficialFile, Source, add_to_catalogue
from steepest.data.cifar10 import decode_batches, decode_names, open_official
from steepest.data.copy_checks import check_choice, check_labels, check_names, complete_copy
from steepest.errors import DataError

NORMALISATIONS = MappingProxyType(
    {
        "cifar10": (cifar10.MEAN, cifar10.STD),
        "own": ((0.5071, 0.4867, 0.4408), (0.2675, 0.2565, 0.2761)),
    }
)
"""Mean and standard deviation per channel, by the option's value."""

_FOLDER = "cifar-100-python"
_ARCHIVE = "cifar-100-python.tar.gz"

HOLDING = add_to_catalogue(
    Holding(
        name="cifar100",
        title="CIFAR-100: colour images of 32x32",
        task="classification",
        train_count=50_000,
        test_count=10_000,
        classes=100,
        source=Source.DOWNLOAD,
        terms="no licence is stated; cite A. Krizhevsky, Learning Multiple Layers of Features "
        "from Tiny Images (2009)",
        site="https://www.cs.toronto.edu/~kriz/cifar.html",
        files=(
            OfficialFile(
                name="cifar-100-python.tar.gz",
                url="https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz",
                md5="eb9058c3a382ffc7106e4002c42a8d85",
                size_bytes=169_001_437,
            ),
        ),
        layouts=(Layout(("cifar-100-python",)), Layout(("cifar-100-python.tar.gz",))),
        holds=f"{_FOLDER} or {_ARCHIVE}",
    )
)


@DATASETS.register("cifar100")
def cifar100(root: Path | None = None, *, normalisation: str = "cifar10") -> ImageSet:
    """Load CIFAR-100, with its hundred fine classes, from its official files.

    Args:
        root: The folder of data sets.
        normalisation: ``"cifar10"`` for the mean and standard deviation of CIFAR-10, which
            the paper's line of work uses here too, or ``"own"`` for those of these images.

    Raises:
        DataError: If they are not under ``root``, or are incomplete or damaged.
        UnknownNameError: If there is no such normalisation.
    """
    check_choice("normalisation", normalisation, tuple(NORMALISATIONS))
    mean, std = NORMALISATIONS[normalisation]
    with complete_copy(HOLDING, root) as place:
        files = ("train", "test", "meta")
        official = open_official(place / _FOLDER, place / _ARCHIVE, HOLDING.md5_of(_ARCHIVE), files)
        if official is None:
            raise DataError(f"{place}: CIFAR-100 is not there")
        where, read = official
        classes = decode_names(read, "meta", where, "fine_label_names")
        check_names(classes, HOLDING.classes, f"{where / 'meta'}")
        train = decode_batches(read, ("train",), where, "fine_labels")
        test = decode_batches(read, ("test",), where, "fine_labels")
        for (_, labels), count, file in (
            (train, HOLDING.train_count, "train"),
            (test, HOLDING.test_count, "test"),
        ):
            check_labels(labels, count, len(classes), f"{where / file}", balanced=True)
    return from_arrays(
        *train,
        *test,
        classes,
        name="cifar100",
        mean=mean,
        std=std,
        layout="channels-first",
        augmentation="crop-flip",
    )
