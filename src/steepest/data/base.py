"""Image data sets, loaded by name."""

from __future__ import annotations

import inspect
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from steepest.core.files import expand_home
from steepest.core.keyword_options import convert_options
from steepest.core.own_code import current_directory_importable, import_own
from steepest.core.registry import Registry
from steepest.data.sealed import Labels, SealedLabels, check_kind, fits
from steepest.data.streamed import Streamed
from steepest.errors import DataError, InputError, SteepestError, in_one_line

__all__ = [
    "DATASETS",
    "DATA_VARIABLE",
    "ImageSet",
    "Images",
    "SealedLabels",
    "data_root",
    "load",
    "names",
]

DATA_VARIABLE = "STEEPEST_DATA"
"""The environment variable that names the folder of data sets."""
Images = Tensor | Streamed
"""Images [N, C, H, W], volumes [N, C, D, H, W] or features [N, C], in memory or from disk."""
_ROOT = "root"
"""Arguments that a function is offered and that are not options."""


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


def load(
    name: str,
    root: Path | None = None,
    options: Mapping[str, Any] | None = None,
    limit: int | None = None,
) -> ImageSet:
    """Load a data set by name.

    Args:
        name: One of ``names()``, or ``package.module:function`` for one of the user's own.
        root: The folder of data sets; ``STEEPEST_DATA`` if not given.
        options: The data set's own options.
        limit: Keep so many training and test samples at most, drawn at random, always the same.

    Raises:
        UnknownNameError: If there is no data set, or option of it, of that name.
        InputError: If an option's value cannot be used, or one is missing.
        DataError: If its files are missing or damaged.
    """
    folder = data_root() if root is None else root
    if ":" in name:
        data = load_own(name, folder, options or {})
    else:
        chosen = check_options(name, options or {})
        data = DATASETS.get(name)(folder, **chosen)
    if limit is None:
        return data
    from steepest.data.alterations import limited

    return limited(data, limit)


def check_options(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options as a data set takes them, without loading it.

    Those of the user's own function are its own business until it is called.

    Raises:
        UnknownNameError: If there is no data set, or option of it, of that name.
        ConfigError: If a value has the wrong type, or one that it needs is missing.
    """
    if ":" in name:
        return dict(options)
    reader = DATASETS.get(name)
    root = next(iter(inspect.signature(reader).parameters), "root")
    return convert_options(f"data set {name!r}", reader, options, (root,))


def names() -> list[str]:
    """Return the names of all data sets."""
    return DATASETS.names()


def load_own(name: str, root: Path | None, options: Mapping[str, Any]) -> ImageSet:
    """Import what makes a data set, and call it; or take one that a module holds ready.

    Args:
        name: ``package.module:function``; modules of the current directory are found too. A class
            will do that makes an ``ImageSet``.
        root: The folder of data sets, which it is told if it has a parameter ``root``.
        options: What it is told in any case, as the types that its annotations ask for.

    Raises:
        UnknownNameError: If it has no parameter for an option.
        InputError: If it cannot be imported or called, or makes something else.
    """
    found = import_own("data set", name, "package.module:function")
    if isinstance(found, ImageSet):
        if options:
            raise InputError(f"data set {name!r} is made already: it takes no options")
        return found
    if not callable(found):
        module, _, attribute = name.partition(":")
        raise InputError(f"data set {name!r}: {module} has no function or class {attribute!r}")
    made = _call(found, name, root, options)
    if not isinstance(made, ImageSet):
        raise InputError(
            f"data set {name!r} returns a {type(made).__name__}, not a steepest.data.ImageSet: "
            "make one by from_arrays, from_torch or ImageSet itself"
        )
    return made


def _call(
    function: Callable[..., object], name: str, root: Path | None, options: Mapping[str, Any]
) -> object:
    with current_directory_importable():
        try:
            told = convert_options(f"data set {name!r}", function, options, (_ROOT,))
            takes_root = _ROOT in inspect.signature(function).parameters
            return function(**({_ROOT: root} if takes_root else {}), **told)
        except SteepestError:
            raise  # It is told in one line with its remedy, as of every data set.
        except Exception as error:
            raise InputError(f"data set {name!r} cannot be made: {in_one_line(error)}") from error
