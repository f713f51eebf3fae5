"""Data sets of torch, torchvision and Hugging Face as sets for experiments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.utils.data import ConcatDataset, IterableDataset, Subset, TensorDataset

from steepest.data.base import ImageSet
from steepest.data.image_view import IMAGENET_MEAN, IMAGENET_STD, check_side
from steepest.data.item_pixels import (
    Given,
    ItemMapReader,
    ItemReader,
    Items,
    count_channels,
    holds_wide_numbers,
    read_item,
    to_map,
    to_pixels,
)
from steepest.data.sealed import Labels, SealedLabels
from steepest.data.shared_arrays import can_be_sent
from steepest.data.streamed import Streamed, choose_workers
from steepest.errors import DataError, InputError, UnknownNameError

_CLASSIFICATION, _SEGMENTATION, _MULTI_LABEL = "classification", "segmentation", "multi-label"
_TASKS = (_CLASSIFICATION, _SEGMENTATION, _MULTI_LABEL)
_TEST_SPLITS = ("test", "validation", "valid", "val")
_COLUMNS = ("targets", "labels")
_READ_AT_ONCE = 256
_COMPARED = 32
Rows = Any
"""A length, dicts by row, columns by name, and maybe ``features`` and ``column_names``."""

Splits = Mapping[str, Rows] | Sequence[Rows]
"""A dict with ``"train"`` and ``"test"`` (or ``"validation"``), or (train, test)."""


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
    """Take map-style data sets of torch or torchvision; images are read on demand.

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
        name: The name of the data set.
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
    """Take data sets of Hugging Face's library; images are read on demand.

    Args:
        splits: A dict with ``"train"`` and ``"test"`` (or ``"validation"``), or (train, test).
        image: The column of images.
        label: The column of labels: numbers or names of classes; lists of them, where the task is
            ``"multi-label"``; label maps, where it is ``"segmentation"``.
        classes: The classes' names; by default those that the data set says or holds.
        size: As for ``from_torch``, like the other options.
        mean: Per channel.
        std: Per channel.
        task: The task of the labels.
        name: The name of the data set.
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


def collect_labels(items: Items, first: Given, workers: int) -> Tensor:
    """Return all labels of a data set, int64 [N] or [N, K].

    Args:
        items: The data set; an item is (image, label).
        first: The label of its first item, which a column of labels must agree with.
        workers: Processes that read items where there is no such column.

    Raises:
        DataError: If labels are not whole numbers, or a sample cannot be read.
    """
    start = to_numbers(first)
    known = _find_column(items)
    if known is not None and len(known) == len(items) and _agrees(known, items):
        return known
    column = Streamed(_LabelReader(items), len(items), start.shape, torch.int64, workers=workers)
    parts = list(torch.split(torch.arange(len(items)), _READ_AT_ONCE))
    return torch.cat(list(column.batches(parts)))


def _agrees(column: Tensor, items: Items) -> bool:
    """Say whether a column of labels is that of the items, judging by a few all over it."""
    rows = set(torch.linspace(0, len(items) - 1, min(_COMPARED, len(items))).long().tolist())
    return all(torch.equal(column[row], to_numbers(read_item(items, row)[1])) for row in rows)


def to_numbers(label: Given) -> Tensor:
    """Return a label, or a row of labels, as int64.

    Raises:
        DataError: If it is not made of whole numbers.
    """
    numbers = _as_whole(label)
    if numbers is None:
        raise DataError(f"a label is {label!r}, not a whole number or a row of them")
    return numbers


class _LabelReader:
    draws = 0

    def __init__(self, items: Items) -> None:
        self._items = items

    def __call__(self, row: int, draw: Tensor | None) -> Tensor:  # noqa: ARG002 - never augmented
        return to_numbers(read_item(self._items, row)[1])


def _find_column(items: Items) -> Tensor | None:
    if isinstance(items, Subset):
        whole = _find_column(items.dataset)
        return None if whole is None else whole[torch.as_tensor(items.indices, dtype=torch.long)]
    if isinstance(items, ConcatDataset):
        parts = [part for part in map(_find_column, items.datasets) if part is not None]
        return torch.cat(parts) if len(parts) == len(items.datasets) else None
    if isinstance(items, TensorDataset):
        return _as_whole(items.tensors[1]) if len(items.tensors) > 1 else None
    column = next((getattr(items, n) for n in _COLUMNS if hasattr(items, n)), None)
    change = getattr(items, "target_transform", None)
    if column is not None and change is not None:
        column = [change(label) for label in column]
    return None if column is None else _as_whole(column)


def _as_whole(labels: Given) -> Tensor | None:
    """Return labels as int64; None if they are something else."""
    if isinstance(labels, (list, tuple)) and labels and isinstance(labels[0], Tensor):
        labels = torch.stack(list(labels))
    if not isinstance(labels, Tensor):
        try:
            array = np.asarray(labels)
        except ValueError:  # rows of several lengths
            return None
        if array.dtype.kind not in "iub":
            return None
        return torch.from_numpy(array.astype(np.int64))
    whole = not labels.is_floating_point() and not labels.is_complex()
    return labels.detach().to("cpu", torch.int64) if whole else None


class NamedRows:
    """The items (image, label) of a data set whose items are dicts.

    Args:
        rows: The data set.
        image: The column of images.
        label: The column of labels: numbers, names, lists of either, or label maps.

    Attributes:
        targets: The labels as numbers [N] or [N, K], once they are numbered.

    Raises:
        InputError: If the data set has no length, or no such columns.
    """

    def __init__(self, rows: Rows, image: str, label: str) -> None:
        if not hasattr(rows, "__len__") or not hasattr(rows, "__getitem__"):
            raise InputError(
                f"a data set of type {type(rows).__name__} has no length and rows: load it with "
                "streaming=False"
            )
        names = getattr(rows, "column_names", None) or getattr(rows, "features", None) or ()
        for column in (image, label):
            if names and column not in names:
                raise UnknownNameError("column", column, list(names))
        self._rows = rows
        self._image = image
        self._label = label
        self.targets: npt.NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, row: int) -> tuple[Any, Any]:
        """Read one row."""
        item = self._rows[row]
        label = item[self._label] if self.targets is None else self.targets[row]
        return item[self._image], label

    @property
    def classes(self) -> tuple[str, ...] | None:
        """The classes' names, where the data set says them."""
        feature = (getattr(self._rows, "features", None) or {}).get(self._label)
        names = getattr(feature, "names", None)
        if names is None:
            names = getattr(getattr(feature, "feature", None), "names", None)
        return None if names is None else tuple(str(name) for name in names)

    def column(self) -> list[Any]:
        """Return the column of labels, no image decoded."""
        return list(self._rows[self._label])


def number_labels(column: Sequence[Any], classes: Sequence[str]) -> npt.NDArray[np.int64]:
    """Return labels as numbers [N], or, of lists of labels, which classes are there [N, K].

    Args:
        column: Numbers or names of classes, or lists of them.
        classes: The classes' names [K].

    Raises:
        DataError: If a label is no class.
    """
    numbers = {name: number for number, name in enumerate(classes)}

    def find(label: object) -> int:
        number = numbers.get(label, -1) if isinstance(label, str) else label
        if not isinstance(number, (int, np.integer)) or not 0 <= number < len(classes):
            raise DataError(f"label {label!r} is none of the {len(classes)} classes")
        return int(number)

    if not _has_lists(column):
        return np.array([find(label) for label in column], dtype=np.int64)
    present = np.zeros((len(column), len(classes)), dtype=np.int64)
    for row, labels in enumerate(column):
        present[row, [find(label) for label in labels]] = 1
    return present


def name_classes(column: Sequence[Any]) -> tuple[str, ...]:
    """Return the classes of a column of labels: the names in it, or numbers up to the largest."""
    found = {label for labels in column for label in labels} if _has_lists(column) else set(column)
    if any(isinstance(label, str) for label in found):
        return tuple(sorted(label for label in found if isinstance(label, str)))
    whole = [int(label) for label in found if isinstance(label, (int, np.integer))]
    return tuple(str(number) for number in range(max(whole, default=-1) + 1))


def _has_lists(column: Sequence[Any]) -> bool:
    return bool(column) and isinstance(column[0], (list, tuple, np.ndarray))
