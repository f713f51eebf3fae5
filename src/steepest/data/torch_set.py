"""Data sets of torch, torchvision and Hugging Face as sets for experiments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor
from torch.utils.data import IterableDataset

from steepest.data.base import ImageSet
from steepest.data.image_view import IMAGENET_MEAN, IMAGENET_STD, check_side
from steepest.data.item_labels import collect_labels
from steepest.data.item_pixels import (
    ItemMapReader,
    ItemReader,
    Items,
    count_channels,
    holds_wide_numbers,
    read_item,
    to_map,
    to_pixels,
)
from steepest.data.named_rows import NamedRows, Rows, name_classes, number_labels
from steepest.data.parcel import can_be_sent
from steepest.data.sealed import Labels, SealedLabels
from steepest.data.streamed import Streamed, choose_workers
from steepest.errors import DataError, InputError, UnknownNameError

Splits = Mapping[str, Rows] | Sequence[Rows]
"""A dict with ``"train"`` and ``"test"`` (or ``"validation"``), or (train, test)."""

_CLASSIFICATION, _SEGMENTATION, _MULTI_LABEL = "classification", "segmentation", "multi-label"
_TASKS = (_CLASSIFICATION, _SEGMENTATION, _MULTI_LABEL)
_TEST_SPLITS = ("test", "validation", "valid", "val")


def from_torch(
    train: Items,
    test: Items,
    classes: Sequence[str] | None = None,
    size: int | None = None,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    task: str = _CLASSIFICATION,
    *,
    plain: Items = None,
    name: str = "torch",
    workers: int | None = None,
) -> ImageSet:
    """Take map-style data sets of torch or torchvision; images are read as they are needed.

    What a data set does at random is decided by the experiment's seed: in training anew in every
    epoch, for scoring always the same.

    Args:
        train: The training set; an item is (image, label, ...), the image one of Pillow, a tensor
            [C, ...] or [H, W], or an array [H, W] or [H, W, C]. A sample's id is its index.
        test: The test set.
        classes: The classes' names; by default the training set's own, or numbers.
        size: The side of the square that images are resized and cut to; None leaves them, and
            all must then be of one size.
        mean: Per channel; by default ImageNet's for bytes in colour, and nothing for floats.
        std: Per channel, on the same scale.
        task: ``"classification"``, ``"multi-label"`` (labels are rows of 0 and 1) or
            ``"segmentation"`` (labels are maps of bytes, 255 where they do not count).
        plain: The training set without random changes, as samples are scored; None takes
            ``train``.
        name: What the data set is called.
        workers: Processes that read ahead; by default up to eight, one core left, and none for
            data sets that the main script defines.

    Raises:
        DataError: If a sample cannot be used.
        InputError: If an option cannot be used.
    """
    plain = train if plain is None else plain
    _check_options(train, plain, test, task, size)
    count = _choose_workers((train, plain, test), workers)
    images, test_images = (
        _images(items, pool, draws, size, count, scaled=mean is not None and std is not None)
        for items, pool, draws in ((train, plain, 1), (test, test, 0))
    )
    if task == _SEGMENTATION:
        known = len(_map_classes(classes, train))
        labels: Labels = _maps(train, plain, images, known)
        test_labels: Labels = _maps(test, test, test_images, known)
    else:
        labels, test_labels = (_labels(items, task, count) for items in (plain, test))
    means, stds = _normalisation(images, mean, std)
    return ImageSet(
        name=name,
        classes=_name_classes(classes, train, labels, test_labels),
        train_images=images,
        train_labels=SealedLabels(labels),
        test_images=test_images,
        test_labels=test_labels,
        mean=means,
        std=stds,
        augmentation="own",
        task=task,
    )


def from_hugging_face(
    splits: Splits,
    image: str = "image",
    label: str = "label",
    *,
    classes: Sequence[str] | None = None,
    size: int | None = None,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    task: str = _CLASSIFICATION,
    name: str = "hugging-face",
    workers: int | None = None,
) -> ImageSet:
    """Take data sets of Hugging Face's library; images are read as they are needed.

    Args:
        splits: A dict with ``"train"`` and ``"test"`` (or ``"validation"``), or (train, test).
        image: The column of images.
        label: The column of labels: numbers or names of classes; lists of them, where the task is
            ``"multi-label"``; label maps, where it is ``"segmentation"``.
        classes: The classes' names; by default those that the data set says or holds.
        size: As for ``from_torch``, like the other options.
        mean: Per channel.
        std: Per channel.
        task: What the labels are for.
        name: What the data set is called.
        workers: Processes that read ahead.

    Raises:
        DataError: If a sample cannot be used.
        InputError: If an option cannot be used.
    """
    train, test = (NamedRows(rows, image, label) for rows in _pick_splits(splits))
    known = train.classes if classes is None else tuple(classes)
    if task != _SEGMENTATION:
        columns = train.column(), test.column()
        known = name_classes(columns[0]) if known is None else known
        train.targets, test.targets = (number_labels(column, known) for column in columns)
    return from_torch(train, test, known, size, mean, std, task, name=name, workers=workers)


def _check_options(train: Items, plain: Items, test: Items, task: str, size: int | None) -> None:
    for items in (train, plain, test):
        known = hasattr(items, "__len__") and hasattr(items, "__getitem__")
        if not known or isinstance(items, IterableDataset):
            raise InputError(
                f"a data set of type {type(items).__name__} has no length and items: give one of "
                "map style"
            )
        if not len(items):
            raise DataError("a data set is empty: give one with samples")
    if len(plain) != len(train):
        raise InputError(f"plain has {len(plain)} samples and train {len(train)}: give the same")
    if task not in _TASKS:
        raise UnknownNameError("task", task, _TASKS)
    if size is not None:
        check_side("size", size)
        if task == _SEGMENTATION:
            raise InputError("size is not for label maps: let the data set resize both alike")


def _choose_workers(items: tuple[Items, ...], workers: int | None) -> int:
    count = choose_workers(workers)
    return count if workers is not None or not count or can_be_sent(items) else 0


def _images(
    items: Items, plain: Items, draws: int, size: int | None, workers: int, *, scaled: bool
) -> Streamed:
    image, _ = read_item(plain, 0)
    if not scaled and holds_wide_numbers(image):
        raise DataError(
            f"images are {image.dtype}, and it is not known what white is: give bytes 0..255 "
            "(uint8) or floats, such as 0..1, or else mean and std"
        )
    channels = count_channels(image)
    first = to_pixels(image, channels, size)
    reader = ItemReader(items, plain, draws=draws, channels=channels, size=size)
    return Streamed(reader, len(items), first.shape, first.dtype, workers=workers)


def _maps(items: Items, plain: Items, images: Streamed, classes: int) -> Streamed:
    """Return the label maps of images, which are read just as these are."""
    _, label = read_item(plain, 0)
    sides, wanted = list(to_map(label).shape), list(images.shape[2:])
    if sides != wanted:
        raise DataError(f"label maps are {sides} for images of {wanted}: they must be of one size")
    reader = ItemMapReader(items, plain, draws=images.draws, classes=classes)
    return Streamed(reader, len(items), sides, torch.uint8, workers=images.workers)


def _labels(items: Items, task: str, workers: int) -> Tensor:
    _, first = read_item(items, 0)
    labels = collect_labels(items, first, workers)
    if task == _CLASSIFICATION:
        if labels.ndim != 1:
            raise DataError(
                f"labels have shape {list(labels.shape)}, not one class each: give another task"
            )
        return labels
    if labels.ndim != 2 or not bool(((labels == 0) | (labels == 1)).all()):
        raise DataError("labels of several classes must be rows of 0 and 1, one for each class")
    return labels.bool()


def _normalisation(
    images: Streamed, mean: Sequence[float] | None, std: Sequence[float] | None
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    channels = int(images.shape[1])
    if images.dtype != torch.uint8:
        usual = (0.0,) * channels, (1.0,) * channels
    elif channels == 3:
        usual = IMAGENET_MEAN, IMAGENET_STD
    else:
        usual = (0.5,) * channels, (0.25,) * channels
    return tuple(usual[0] if mean is None else mean), tuple(usual[1] if std is None else std)


def _name_classes(
    given: Sequence[str] | None, train: Items, labels: Labels, test_labels: Labels
) -> tuple[str, ...]:
    if isinstance(labels, Streamed) or isinstance(test_labels, Streamed):
        return _map_classes(given, train)
    own = getattr(train, "classes", None) if given is None else given
    largest = max(int(labels.max()), int(test_labels.max()))
    least = labels.shape[1] if labels.ndim == 2 else largest + 1
    if own is None or (given is None and len(own) < least):
        return tuple(str(number) for number in range(least))
    return tuple(str(name) for name in own)


def _map_classes(given: Sequence[str] | None, train: Items) -> tuple[str, ...]:
    own = getattr(train, "classes", None) if given is None else given
    if own is None:
        raise InputError("label maps do not say how many classes there are: give classes")
    return tuple(str(name) for name in own)


def _pick_splits(splits: Splits) -> tuple[Rows, Rows]:
    if isinstance(splits, Mapping):
        test = next((name for name in _TEST_SPLITS if name in splits), None)
        if "train" not in splits or test is None:
            known = ", ".join(map(str, splits)) or "none"
            raise InputError(f"splits are {known}; pass (train, test)")
        return splits["train"], splits[test]
    if not isinstance(splits, (tuple, list)) or len(splits) != 2:
        raise InputError("give a dict of splits, or (train, test)")
    return splits[0], splits[1]
