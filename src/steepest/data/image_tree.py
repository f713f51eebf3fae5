"""A labelled folder of your own: one folder of images for each class."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from steepest.core.files import expand_home
from steepest.core.seeds import keyed_uniform
from steepest.data.base import DATASETS, ImageSet
from steepest.data.file_table import FileTable, list_files, list_folders
from steepest.data.folder import SUFFIXES
from steepest.data.image_decoding import check_image
from steepest.data.image_view import IMAGENET_MEAN, IMAGENET_STD, ViewReader, check_side
from steepest.data.sealed import SealedLabels
from steepest.data.streamed import Streamed, choose_workers
from steepest.errors import DataError, InputError

_SUFFIXES = tuple(sorted(SUFFIXES))
_TEST_FOLDERS = ("test", "val")
_TRAIN_WORDS = frozenset({"train", "training"})
_TEST_WORDS = frozenset({"test", "testing", "val", "valid", "validation"})
_LAYOUT = "give FOLDER/<class>/<image>, or FOLDER/train/<class>/<image> and FOLDER/test/<class>/…"
_NAMED_IN_ERROR = 3


@DATASETS.register("folder")
def folder(
    root: Path | None = None,
    *,
    path: str,
    size: int = 224,
    test_share: float = 0.2,
    seed: int = 0,
    mean: tuple[float, ...] = IMAGENET_MEAN,
    std: tuple[float, ...] = IMAGENET_STD,
    check: bool = False,
    workers: int | None = None,
) -> ImageSet:
    """Load your own images, one folder for each class, read from disk on demand.

    Rows are in the order of classes and, within one, of names.

    Args:
        root: The folder of data sets, where ``path`` is looked for if it is nowhere else.
        path: ``<class>/<image>``, of which a share becomes the test set, or ``train`` and
            ``test`` (or ``val``) with such folders in them.
        size: The side of the square that is seen: the shorter side resized to it and the centre
            cut out, or a random box in training.
        test_share: The share of each class that is for testing, where there is no test folder.
        seed: Decides which; an image's lot does not depend on the others' names.
        mean: Per channel, on the 0..1 scale [3].
        std: Per channel, on the same scale [3].
        check: Whether to look at every image now, not when it is read.
        workers: Processes that read ahead; by default up to eight, one core left.

    Raises:
        DataError: If the folder is missing, or holds nothing that can be learned from.
        InputError: If an option cannot be used.
    """
    _check_options(size, test_share, mean, std)
    place = _find(path, root)
    classes, train, test = _split(place, test_share, seed)
    if check:
        _check_headers([train, test])
    count = choose_workers(workers)

    def images(part: _Part) -> Streamed:
        reader = ViewReader(part.files, size, size)
        whole = Streamed(reader, len(part.files), (3, size, size), torch.uint8, workers=count)
        return whole.take(torch.from_numpy(part.rows))

    return ImageSet(
        name="folder",
        classes=tuple(classes),
        train_images=images(train),
        train_labels=SealedLabels(torch.from_numpy(train.labels)),
        test_images=images(test),
        test_labels=torch.from_numpy(test.labels),
        mean=tuple(mean),
        std=tuple(std),
        augmentation="own",
    )


class _Part:
    """Some rows of a table of files, and the class that each folder stands for."""

    def __init__(
        self, files: FileTable, rows: npt.NDArray[np.intp], class_of: npt.NDArray[np.int64]
    ) -> None:
        self.files = files
        self.rows = rows
        self.labels = class_of[files.folder_of[rows]]


def _check_options(
    size: int, test_share: float, mean: tuple[float, ...], std: Sequence[float]
) -> None:
    check_side("size", size)
    if not 0 < test_share < 1:
        raise InputError(f"test_share is {test_share!r}; give a share between 0 and 1")
    for name, values in (("mean", mean), ("std", std)):
        if not isinstance(values, (list, tuple)) or len(values) != 3:
            raise InputError(f"{name} is {values!r}; give three numbers")


def _find(path: str, root: Path | None) -> Path:
    given = expand_home(path)
    if given.is_dir():
        return given
    if root is not None and (root / given).is_dir():
        return root / given
    under = f", nor is it under {root}" if root is not None and not given.is_absolute() else ""
    raise DataError(f"{given}: no such folder{under}; {_LAYOUT}")


def _split(place: Path, test_share: float, seed: int) -> tuple[list[str], _Part, _Part]:
    """Return the classes, the training files and the test files."""
    inside = list_folders(place)
    # A class may be called so as well: that of railways has images in it, not folders.
    if "train" in inside and list_folders(place / "train"):
        name = next((name for name in _TEST_FOLDERS if name in inside), None)
        if name is None:
            raise DataError(f"{place}: train is there, but neither test nor val; {_LAYOUT}")
        return _read_split(place / "train", place / name)
    _refuse_parts(place, inside)
    files = list_files(place, inside, _SUFFIXES)
    _check_classes(place, files)
    in_test = _draw_test(files, test_share, seed)
    if not in_test.any():
        raise DataError(f"{place}: no class is large enough to leave an image for testing")
    numbers = np.arange(len(inside))
    train, test = (_Part(files, np.flatnonzero(part), numbers) for part in (~in_test, in_test))
    return inside, train, test


def _refuse_parts(place: Path, folders: Sequence[str]) -> None:
    """Refuse parts of other names than ours, which would be taken for classes."""
    train, test = (
        next((name for name in folders if _is_part(place / name, words)), None)
        for words in (_TRAIN_WORDS, _TEST_WORDS)
    )
    if train is not None and test is not None:
        raise DataError(
            f"{place}: {train} and {test} look like parts of the data, not like classes; call them "
            "train and test"
        )


def _is_part(folder: Path, words: frozenset[str]) -> bool:
    """Say whether a folder is called so, or has such a word in its name and folders in it."""
    found = set(re.findall(r"[a-z]+", folder.name.lower()))
    return bool(found & words) and (found <= words or bool(list_folders(folder)))


def _read_split(train: Path, test: Path) -> tuple[list[str], _Part, _Part]:
    classes, present = list_folders(train), list_folders(test)
    numbers = {name: number for number, name in enumerate(classes)}
    unknown = [name for name in present if name not in numbers]
    if unknown:
        raise DataError(f"{test / unknown[0]}: there is no such class in {train}")
    files = list_files(train, classes, _SUFFIXES)
    _check_classes(train, files)
    tested = list_files(test, present, _SUFFIXES)
    if not len(tested):
        raise DataError(f"{test}: no images in it; {_LAYOUT}")
    # A class keeps its number also where the test folder lacks another.
    class_of = np.array([numbers[name] for name in present], dtype=np.int64)
    learned = _Part(files, np.arange(len(files)), np.arange(len(classes)))
    return classes, learned, _Part(tested, np.arange(len(tested)), class_of)


def _check_classes(place: Path, files: FileTable) -> None:
    if len(files.folders) < 2:
        raise DataError(f"{place}: {len(files.folders)} folders of classes in it; {_LAYOUT}")
    sizes = np.bincount(files.folder_of, minlength=len(files.folders))
    if not sizes.all():
        empty = files.folders[int(sizes.argmin())]
        raise DataError(f"{place / empty}: no images in it; add some or remove the folder")


def _draw_test(files: FileTable, share: float, seed: int) -> npt.NDArray[np.bool_]:
    """Choose a share of each class, by draws that belong to the files' names [N]."""
    names = [files.name(row) for row in range(len(files))]
    draws = keyed_uniform(seed, "folder split", names)[:, 0]
    order = np.lexsort((draws, files.folder_of))
    chosen = np.zeros(len(files), dtype=bool)
    sizes = np.bincount(files.folder_of, minlength=len(files.folders))
    for start, size in zip(np.cumsum(sizes) - sizes, sizes, strict=True):
        # One image at least stays to learn from.
        chosen[order[start : start + min(math.floor(share * size + 0.5), size - 1)]] = True
    return chosen


def _check_headers(parts: Sequence[_Part]) -> None:
    bad, total = list[str](), 0
    for part in parts:
        for row in part.rows:
            total += 1
            path = part.files.path(int(row))
            found = check_image(path)
            if isinstance(found, str):
                bad.append(f"{path} ({found})")
    if bad:
        more = f" and {len(bad) - _NAMED_IN_ERROR} more" if len(bad) > _NAMED_IN_ERROR else ""
        named = "; ".join(bad[:_NAMED_IN_ERROR])
        raise DataError(
            f"{len(bad)} of {total} images cannot be read: {named}{more}; restore or remove them"
        )
