"""Caltech-101: 8,677 pictures of objects in 101 classes (L. Fei-Fei et al., 2004)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from steepest.core.seeds import keyed_uniform
from steepest.data.arrays import from_arrays
from steepest.data.base import DATASETS, ImageSet
from steepest.data.catalogue import (
    Holding,
    Layout,
    OfficialFile,
    Source,
    Unpacking,
    add_to_catalogue,
)
from steepest.data.copy_checks import (
    check_choice,
    check_count,
    check_labels,
    check_names,
    complete_copy,
)
from steepest.data.image_files import Pixels, SquareCrop, list_images, read_images
from steepest.data.shards import read_classes, read_shards
from steepest.errors import DataError, InputError

_TREE = "101_ObjectCategories"
_PLACES = (_TREE, f"caltech-101/{_TREE}", f"caltech101/{_TREE}")
_SHARDS = "caltech101_64"
_SHARDS_SIZE = 64
_BACKGROUND = "BACKGROUND_Google"

Arrays = tuple[Pixels, npt.NDArray[np.int64], Pixels, npt.NDArray[np.int64]]
"""Training images and labels, test images and labels."""

HOLDING = add_to_catalogue(
    Holding(
        name="caltech101",
        title="Caltech-101: photographs of objects, about 300x200",
        task="classification",
        train_count=7_766,
        test_count=911,
        classes=101,
        source=Source.DOWNLOAD,
        terms="cite F.-F. Li, M. Andreetto, M. Ranzato, P. Perona (2022), doi:10.22002/D1.20086",
        site="https://data.caltech.edu/records/mzrjq-6wc02",
        files=(
            OfficialFile(
                name="caltech-101.zip",
                url="https://data.caltech.edu/records/mzrjq-6wc02/files/caltech-101.zip",
                md5="3138e1922a9193bfa496528edbbc45d0",
                size_bytes=137_414_764,
                unpacking=Unpacking(
                    inner="caltech-101/101_ObjectCategories.tar.gz",
                    folder="101_ObjectCategories",
                    target="101_ObjectCategories",
                ),
            ),
        ),
        layouts=(
            Layout(("101_ObjectCategories",)),
            Layout(("caltech-101/101_ObjectCategories",)),
            Layout(("caltech101/101_ObjectCategories",)),
            Layout(("caltech101_64",), (("source", "shards"),)),
        ),
        holds=f"{_TREE}/ (or {_SHARDS}/, with source = 'shards')",
        counts={"shards train": 5_784, "shards test": 2_893},
    )
)


@DATASETS.register("caltech101")
def caltech101(
    root: Path | None = None, *, source: str = "official", size: int = 0, seed: int = 0
) -> ImageSet:
    """Load Caltech-101 without its background class.

    The official files have no split: of each class, 9 in 10 images (rounded down) are drawn
    for training. Images are squeezed into a square, of which the middle 7/8 are kept.

    Args:
        root: The folder of data sets.
        source: ``"official"`` for the folder ``101_ObjectCategories``, ``"shards"`` for the
            compact copy of 64x64 pixels, which has its own split.
        size: The images' side in pixels; 0 for the usual one, 224 for the official files.
        seed: Decides the split of the official files.

    Raises:
        DataError: If the files are not under ``root``, or are incomplete or damaged.
        InputError: If the shards are to have another size or split than they have.
    """
    check_choice("source", source, ("official", "shards"))
    _check_options(source, size, seed)
    with complete_copy(HOLDING, root) as place:
        if source == "shards":
            classes, arrays = _read_shards(place / _SHARDS)
        else:
            classes, arrays = _read_tree(_find_tree(place), size or 224, seed)
    return from_arrays(
        *arrays,
        classes,
        name="caltech101",
        # As the paper's line of work has it: centred, but not scaled.
        mean=(0.5020, 0.5020, 0.5020),
        std=(1.0, 1.0, 1.0),
        layout="channels-first",
        augmentation="flip",
    )


def _check_options(source: str, size: int, seed: int) -> None:
    if size < 0 or (source == "shards" and size not in (0, _SHARDS_SIZE)):
        which = f"{_SHARDS_SIZE} for the shards" if source == "shards" else "a side in pixels"
        raise InputError(f"caltech101: size is {size}; give {which}, or 0 for the usual one")
    if source == "shards" and seed:
        raise InputError("caltech101: the shards have a split of their own; leave the seed out")


def _find_tree(root: Path) -> Path:
    for place in _PLACES:
        if (root / place).is_dir():
            return root / place
    raise DataError(f"{root}: Caltech-101 is not there")


def _read_tree(tree: Path, size: int, seed: int) -> tuple[tuple[str, ...], Arrays]:
    classes = tuple(sorted(p.name for p in tree.iterdir() if p.is_dir() and p.name[0] != "."))
    classes = tuple(name for name in classes if name != _BACKGROUND)
    check_names(classes, HOLDING.classes, f"{tree}")
    by_class = [list_images(tree / name, ".jpg") for name in classes]
    check_count(sum(map(len, by_class)), HOLDING.train_count + HOLDING.test_count, f"{tree}")
    train, test = _split(by_class, seed)
    check_count(sum(map(len, train)), HOLDING.train_count, f"{tree} (training part)")
    crop = SquareCrop(squeezed=round(size * 8 / 7), side=size)
    parts = [
        (read_images([path for paths in part for path in paths], crop), _label(part))
        for part in (train, test)
    ]
    return classes, (*parts[0], *parts[1])


def _split(by_class: list[list[Path]], seed: int) -> tuple[list[list[Path]], list[list[Path]]]:
    """Draw the training images of each class; both parts stay in order of their names."""
    train, test = [], []
    for paths in by_class:
        # Keyed by name: a class's split depends on its own files alone, whatever the folder.
        ids = [f"{path.parent.name}/{path.name}" for path in paths]
        order = np.argsort(keyed_uniform(seed, "caltech101 split", ids)[:, 0], kind="stable")
        chosen = set(order[: len(paths) * 9 // 10].tolist())
        train.append([path for row, path in enumerate(paths) if row in chosen])
        test.append([path for row, path in enumerate(paths) if row not in chosen])
    return train, test


def _label(part: list[list[Path]]) -> npt.NDArray[np.int64]:
    return np.repeat(np.arange(len(part), dtype=np.int64), [len(paths) for paths in part])


def _read_shards(folder: Path) -> tuple[tuple[str, ...], Arrays]:
    classes = read_classes(folder)
    check_names(classes, HOLDING.classes, f"{folder / 'classes.json'}")
    train, test = read_shards(folder, "train"), read_shards(folder, "test")
    for (_, labels), count, split in (
        (train, HOLDING.counts["shards train"], "train"),
        (test, HOLDING.counts["shards test"], "test"),
    ):
        check_labels(labels, count, len(classes), f"{folder} ({split})")
    return classes, (*train, *test)
