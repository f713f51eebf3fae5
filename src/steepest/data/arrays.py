"""A data set out of arrays or tensors that are in memory already."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from steepest.core.seeds import keyed_uniform
from steepest.core.wording import counted
from steepest.data.base import ImageSet
from steepest.data.sealed import SealedLabels, check_kind
from steepest.errors import (
    DataError,
    EmptyClassWarning,
    InputError,
    NonFiniteError,
    UnknownNameError,
)

_IGNORED = 255
_LOOKED_AT_ONCE = 64
_TASKS = {torch.int64: "classification", torch.uint8: "segmentation", torch.bool: "multi-label"}
_MOST_CLASSES = 1_000_000
Part = tuple[Tensor, Tensor]
"""Images and labels."""

LAYOUTS = ("auto", "channels-first", "channels-last")
"""Position of the channel axis."""

Array = npt.NDArray[Any] | Tensor
_MOST_CHANNELS = 4
_CHECKED_AT_ONCE = 256
_WHOLE = (torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8)
Texts = npt.NDArray[np.str_]
_NO_LABEL = ("", "nan")


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
        InputError: If the layout is ambiguous, an image is not finite, or there is nothing to
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
    """Check what the data set itself does not: kinds, and the size of label maps."""
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


def find_layout(images: Array, layout: str) -> str:
    """Say where the channels of images are.

    ``"auto"`` takes the axis after N or the last one, whichever has 1 to 4 entries; where both or
    neither have, it is ambiguous. [N, H, W] is grey in any layout.

    Raises:
        InputError: If it is ambiguous.
        UnknownNameError: If there is no such layout.
    """
    if layout not in LAYOUTS:
        raise UnknownNameError("layout", layout, LAYOUTS)
    shape = images.shape
    if layout != "auto" or len(shape) < 4:
        return layout
    first, last = shape[1] <= _MOST_CHANNELS, shape[-1] <= _MOST_CHANNELS
    if first == last:
        raise InputError(
            f"images are {list(shape)}, and it is unclear which axis holds the channels; "
            "set layout to 'channels-first' or 'channels-last'"
        )
    return "channels-first" if first else "channels-last"


def to_images(images: Array, layout: str) -> Tensor:
    """Bring images, volumes or features into the form [N, C, ...], as uint8 or float32.

    Arrays that have that form already are not copied, so that one mapped from disk stays there.

    Args:
        images: [N, H, W], or [N, ...] with channels where ``layout`` says; or features [N, C],
            which are floats.
        layout: As ``find_layout`` returns it.

    Raises:
        DataError: If they are neither bytes nor floats, or have another number of axes.
        NonFiniteError: If one is not finite.
    """
    tensor = _to_tensor(images, "images")
    if not 2 <= tensor.ndim <= 5:
        raise DataError(
            f"images are {list(tensor.shape)}; give [N, H, W] or one axis more, or features [N, D]"
        )
    if tensor.is_floating_point():
        tensor = tensor.float()
    elif tensor.ndim == 2:
        raise DataError(f"features [N, D] are {tensor.dtype}; give floats")
    elif tensor.dtype != torch.uint8:
        kind = str(images.dtype).removeprefix("torch.")
        raise DataError(
            f"images are {kind}; give bytes 0..255 (uint8) or floats, such as 0..1 by images / m "
            "with m the highest value there can be"
        )
    if tensor.ndim == 3:
        tensor = tensor[:, None]
    elif layout == "channels-last" and tensor.ndim > 3:
        tensor = tensor.movedim(-1, 1)
    if tensor.is_floating_point():
        for part in torch.split(tensor, _CHECKED_AT_ONCE):
            if not bool(torch.isfinite(part).all()):
                kind = "features" if tensor.ndim == 2 else "images"
                raise NonFiniteError(
                    f"{kind} hold NaN or infinity (as numbers of single precision); remove "
                    "or replace them"
                )
    return tensor.contiguous()


def to_labels(labels: Array) -> Tensor:
    """Bring labels into the form of their kind.

    Args:
        labels: Whole numbers [N] or, for label maps with 255 where no class is known, [N, H, W];
            or bool [N, K] for several classes each.

    Returns:
        int64 [N], uint8 [N, H, W] or bool [N, K].

    Raises:
        DataError: If they are of no such kind.
    """
    tensor = _to_tensor(labels, "labels")
    if tensor.dtype in _WHOLE and tensor.ndim == 1:
        tensor = tensor.long()
    elif tensor.dtype in _WHOLE and tensor.ndim > 2:
        if tensor.numel() and not 0 <= int(tensor.min()) <= int(tensor.max()) <= 255:
            raise DataError("label maps must hold 0..255, with 255 where no class is known")
        tensor = tensor.to(torch.uint8)
    elif tensor.ndim == 2 and tensor.dtype != torch.bool and tensor.shape[1] > 1:
        _refuse_numbers(tensor)
    check_kind(tensor)
    return tensor


def _refuse_numbers(rows: Tensor) -> None:
    """Return the remedy for numbers [N, K] in place of yes and no.

    Raises:
        DataError: If they are 0, 1 and what may stand for a label that is not known.
    """
    unknown = ~((rows == 0) | (rows == 1))
    if not bool(unknown.any()):
        raise DataError(f"labels [N, {rows.shape[1]}] are the numbers 0 and 1: give labels == 1")
    if bool(((rows == -1) | rows.isnan() | ~unknown).all()):
        row, column = unknown.nonzero()[0].tolist()
        raise DataError(
            f"label {column} of sample {row} is {rows[row, column].item()}: whether a class is "
            "there must be known of every class, so leave such samples out"
        )


def measure_channels(images: Tensor) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Compute mean and standard deviation per channel, of bytes on the 0..1 scale.

    A channel that is the same everywhere gets the standard deviation 1.

    Args:
        images: uint8 or float32 [N, C, ...].
    """
    most = 255.0 if images.dtype == torch.uint8 else 1.0
    axes = [axis for axis in range(images.ndim) if axis != 1]
    values = max(1, images.numel() // max(1, images.shape[1]))
    total, squares = (torch.zeros(images.shape[1], dtype=torch.float64) for _ in range(2))
    for part in torch.split(images, _CHECKED_AT_ONCE):
        total += part.double().sum(axes)
    mean = total / values
    shaped = mean.reshape(1, -1, *[1] * (images.ndim - 2))
    for part in torch.split(images, _CHECKED_AT_ONCE):
        squares += (part.double() - shaped).square().sum(axes)
    std = (squares / values).sqrt()
    # A spread of rounding errors alone would blow them up to the size of a signal.
    std = torch.where(std > 1e-7 * mean.abs(), std / most, torch.ones_like(std))
    return tuple((mean / most).tolist()), tuple(std.tolist())


def _to_tensor(values: Array, what: str) -> Tensor:
    if isinstance(values, Tensor):
        return values.detach().cpu()
    array = np.asarray(values)
    if array.dtype.kind == "u" and array.dtype.itemsize > 1:
        array = array.astype(np.int64)
    if array.dtype.kind not in "biuf":
        raise DataError(f"{what} hold {array.dtype}; give numbers")
    if array.dtype.kind == "f" and array.dtype.itemsize > 8:
        array = array.astype(np.float64)
    array = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("="))
    with warnings.catch_warnings():
        # Nothing here writes to images; an array mapped from disk may well be read-only.
        warnings.filterwarnings("ignore", "The given NumPy array is not writable", UserWarning)
        return torch.from_numpy(array)


def find_texts(labels: object) -> Texts | None:
    """Return labels that are names of classes [N], None if they are something else.

    Raises:
        DataError: If some are text and others are not.
    """
    if labels is None or isinstance(labels, Tensor):
        return None
    array: npt.NDArray[Any] = np.asarray(labels)
    if array.ndim != 1 or array.dtype.kind not in "USO":
        return None
    if array.dtype.kind == "S":
        try:
            return np.array([name.decode() for name in array.tolist()], dtype=np.str_)
        except UnicodeDecodeError as error:
            raise DataError("a label is not text in UTF-8; save text instead of bytes") from error
    strange = [label for label in array.tolist() if not isinstance(label, str)]
    if array.dtype.kind == "O" and strange:
        if len(strange) == array.size:
            return None
        raise DataError(
            f"labels are text, but one is {strange[0]!r}; leave out samples that have none"
        )
    return array.astype(np.str_)


def number_texts(
    parts: Sequence[Texts], classes: Sequence[str] | None
) -> tuple[list[npt.NDArray[np.int64]], tuple[str, ...]]:
    """Return labels as numbers, and the names that they count.

    Args:
        parts: Names of classes, each [N].
        classes: All names in their order; by default those that occur, sorted.

    Raises:
        DataError: If a label is not among the names that are given, or looks like a slip where
            none are.
    """
    if classes is None:
        names = tuple(sorted(str(name) for name in set().union(*parts)))
        _refuse_slips(names)
    else:
        names = tuple(map(str, classes))
    numbers = {str(name): number for number, name in enumerate(names)}
    unknown = next((str(name) for part in parts for name in part if name not in numbers), None)
    if unknown is not None:
        raise DataError(f"a label is {unknown!r}, which is not among classes; add it there")
    return [
        np.array([numbers[str(name)] for name in part], dtype=np.int64) for part in parts
    ], tuple(map(str, names))


def _refuse_slips(names: Sequence[str]) -> None:
    """Refuse names that tables have where there is no label, or that differ by blanks alone."""
    known: dict[str, str] = {}
    for name in names:
        bare = name.strip()
        if bare in _NO_LABEL:
            raise DataError(
                f"a label is {name!r}; leave out samples that have none, or name it in classes"
            )
        if bare in known:
            raise DataError(
                f"labels {known[bare]!r} and {name!r} differ only in spaces; write them alike, or "
                "name both in classes"
            )
        known[bare] = name
