"""A data set out of arrays or tensors that are in memory already."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from steepest.core.seeds import keyed_uniform
from steepest.core.wording import counted
from steepest.data.array_kinds import (
    Array,
    find_layout,
    measure_channels,
    to_images,
    to_labels,
)
from steepest.data.base import ImageSet
from steepest.data.sealed import SealedLabels
from steepest.data.text_labels import find_texts, number_texts
from steepest.errors import DataError, EmptyClassWarning, InputError

_IGNORED = 255
_LOOKED_AT_ONCE = 64
_TASKS = {torch.int64: "classification", torch.uint8: "segmentation", torch.bool: "multi-label"}


def from_arrays(
    train_images: Array,
    train_labels: Array,
    test_images: Array | None = None,
    test_labels: Array | None = None,
    classes: Sequence[str] | None = None,
    *,
    name: str = "arrays",
    mean: Sequence[float] | Array | None = None,
    std: Sequence[float] | Array | None = None,
    layout: str = "auto",
    augmentation: str = "none",
    test_share: float = 0.0,
    seed: int = 0,
) -> ImageSet:
    """Make a data set of numpy arrays or tensors.

    The labels say the task: whole numbers or text [N] are classes, whole numbers [N, H, W] are
    label maps for segmentation (255 where no class is known), bool [N, K] is multi-label.

    Args:
        train_images: Bytes 0..255 or floats: [N, H, W], [N, H, W, C] or [N, C, H, W], or volumes
            with one axis more; or features as floats [N, D], each of which is a channel.
        train_labels: One for each of them.
        test_images: The same; None to take a part of the training images.
        test_labels: One for each of them.
        classes: The classes' names; if not given, those that the labels are, sorted, or numbers.
        name: The data set's name.
        mean: Per channel [C], of bytes on the 0..1 scale; that of the training images if not
            given.
        std: The standard deviation, likewise.
        layout: ``"channels-first"``, ``"channels-last"``, or ``"auto"``: the channels are the axis
            after N or the last one, whichever has 1 to 4 entries.
        augmentation: The name of the augmentation that suits the images in training.
        test_share: The share of samples to test on, whatever their class, where there are no test
            images.
        seed: Decides which those are.

    Raises:
        DataError: If the arrays do not fit together.
        InputError: If the layout cannot be told, an image is not finite, or there is nothing to
            test on.
    """
    layout = find_layout(train_images, layout)
    train_labels, test_labels, classes = _numbered(train_labels, test_labels, classes, name)
    images, labels = to_images(train_images, layout), to_labels(train_labels)
    if test_images is None or test_labels is None:
        if test_images is not test_labels:
            raise InputError(f"{name}: test images and test labels come together or not at all")
        train, test = _split(images, labels, test_share, seed, name)
    elif test_share:
        raise InputError(f"{name}: there are test images: leave test_share out")
    else:
        train = images, labels
        test = to_images(test_images, layout), to_labels(test_labels)
    _check_parts(train, test, name)
    if mean is None or std is None:
        measured = measure_channels(train[0])
        mean, std = measured[0] if mean is None else mean, measured[1] if std is None else std
    return ImageSet(
        name=name,
        classes=_name_classes(classes, train[1], test[1], name),
        train_images=train[0],
        train_labels=SealedLabels(train[1]),
        test_images=test[0],
        test_labels=test[1],
        mean=_to_row(mean, name),
        std=_to_row(std, name),
        augmentation=augmentation,
        task=_TASKS[train[1].dtype],
    )


def _numbered(
    train: Array, test: Array | None, classes: Sequence[str] | None, name: str
) -> tuple[Array, Array | None, Sequence[str] | None]:
    """Return labels with numbers for names, if they are names, and all names then."""
    texts = [find_texts(train), find_texts(test)]
    known = [part for part in texts if part is not None]
    if not known:
        return train, test, classes
    if texts[0] is None or (texts[1] is None and test is not None):
        raise DataError(f"{name}: training labels and test labels are of different kinds")
    numbers, names = number_texts(known, classes)
    return numbers[0], numbers[1] if len(numbers) > 1 else None, names


_MOST_CLASSES = 1_000_000

Part = tuple[Tensor, Tensor]
"""Images and labels."""


def _split(images: Tensor, labels: Tensor, share: float, seed: int, name: str) -> tuple[Part, Part]:
    if not share:
        raise InputError(
            f"{name}: nothing to test on; give test images and labels, or a test_share such as 0.2"
        )
    count = len(images)
    held = round(count * share)
    if not 0 < share < 1 or not 0 < held < count:
        raise InputError(
            f"{name}: test_share is {share}; {counted(count, 'sample')} cannot be split so"
        )
    if len(labels) != count:
        raise DataError(f"{name}: {count} images for {len(labels)} labels")
    order = np.argsort(keyed_uniform(seed, "test split", range(count))[:, 0], kind="stable")
    test, train = (torch.from_numpy(np.sort(rows)) for rows in (order[:held], order[held:]))
    return (images[train], labels[train]), (images[test], labels[test])


def _check_parts(train: Part, test: Part, name: str) -> None:
    """Refuse what the data set itself does not look at: kinds, and the size of label maps."""
    for kind, (images, _) in (("training", train), ("test", test)):
        if not len(images):
            raise DataError(f"{name}: there are no {kind} images; give one at least")
    if train[0].dtype != test[0].dtype:
        raise DataError(
            f"{name}: training images are {train[0].dtype} and test images {test[0].dtype}"
        )
    if train[1].dtype != test[1].dtype:
        raise DataError(f"{name}: training labels and test labels are of different kinds")
    for images, labels in (train, test):
        if labels.dtype == torch.uint8 and labels.shape[1:] != images.shape[2:]:
            raise DataError(
                f"{name}: label maps of {list(labels.shape[1:])} for images of "
                f"{list(images.shape[2:])}"
            )
    if train[1].dtype == torch.uint8 and _are_black_and_white(train[1], test[1]):
        raise DataError(
            f"{name}: label maps hold 0 and {_IGNORED} alone, and {_IGNORED} is where no class is "
            f"known: give 1 instead, if {_IGNORED} is meant to be a class"
        )


def _are_black_and_white(*maps: Tensor) -> bool:
    """Say whether label maps hold 0 and 255, and nothing else."""
    black = white = False
    for part in (part for whole in maps for part in torch.split(whole, _LOOKED_AT_ONCE)):
        zero, ignored = part == 0, part == _IGNORED
        if not bool((zero | ignored).all()):
            return False
        black, white = black or bool(zero.any()), white or bool(ignored.any())
    return black and white


def _to_row(values: Sequence[float] | Array, name: str) -> tuple[float, ...]:
    row = np.asarray(values)
    if row.ndim != 1 or row.dtype.kind not in "biuf" or not np.isfinite(row).all():
        raise DataError(f"{name}: mean and std must be a finite number for each channel [C]")
    return tuple(float(value) for value in row)


def _name_classes(
    classes: Sequence[str] | None, train: Tensor, test: Tensor, name: str
) -> tuple[str, ...]:
    if classes is not None:
        names = tuple(map(str, classes))
        if not names or len(set(names)) != len(names):
            raise InputError(f"{name}: every class needs a name of its own")
        return names
    count = train.shape[1] if train.dtype == torch.bool else max(map(_highest, (train, test))) + 1
    if not count:
        raise DataError(f"{name}: no sample has a label")
    least = min(int(part.min()) if part.dtype == torch.int64 else 0 for part in (train, test))
    if least < 0:
        raise DataError(
            f"{name}: a label is {least}; number the classes from 0 on, and leave out samples that "
            "have none"
        )
    if count > _MOST_CLASSES:
        raise DataError(f"{name}: a label is {count - 1}; number the classes from 0 on")
    if train.dtype == torch.int64:
        _warn_of_gaps(count, torch.cat([train, test]), name)
    return tuple(map(str, range(count)))


def _warn_of_gaps(count: int, labels: Tensor, name: str) -> None:
    """Say that classes are counted which no sample has, as where numbers begin with 1."""
    missing = torch.bincount(labels, minlength=count).eq(0).nonzero().flatten().tolist()
    if missing:
        warnings.warn(
            f"{name}: {len(missing)} of {count} classes are those of no sample, {missing[0]} for "
            "one: number the classes from 0 on without gaps, or give their names as classes",
            EmptyClassWarning,
            stacklevel=4,
        )


def _highest(labels: Tensor) -> int:
    """Return the highest class, or -1 if there is none."""
    if labels.dtype == torch.uint8:
        labels = labels[labels != _IGNORED]
    return int(labels.max()) if labels.numel() else -1
