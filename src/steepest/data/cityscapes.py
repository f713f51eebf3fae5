"""Cityscapes: street scenes with a class for every pixel (M. Cordts et al., 2016)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from steepest.data.base import DATASETS, ImageSet
from steepest.data.catalogue import (
    Holding,
    Layout,
    OfficialFile,
    Source,
    Unpacking,
    add_to_catalogue,
)
from steepest.data.copy_checks import check_count, complete_copy
from steepest.data.file_table import list_files, list_folders
from steepest.data.image_view import check_side
from steepest.data.scene import IGNORED, NO_LABEL, MapReader, SceneFiles, SceneReader
from steepest.data.sealed import SealedLabels
from steepest.data.streamed import Streamed, choose_workers
from steepest.errors import DataError

CLASSES = (
    "road", "sidewalk", "building", "wall", "fence", "pole", "traffic light", "traffic sign",
    "vegetation", "terrain", "sky", "person", "rider", "car", "truck", "bus", "train",
    "motorcycle", "bicycle",
)  # fmt: skip

_LABEL_IDS = (7, 8, 11, 12, 13, 17, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 31, 32, 33)
"""The label id of each class, among the 34 of the annotation."""

_ALL_IDS = 34

_FOLDER = "cityscapes"
_IMAGES, _MAPS = "leftImg8bit", "gtFine"
_IMAGE_END = "_leftImg8bit.png"
_IDS_END = "_gtFine_labelIds.png"
_CLASSES_END = "_gtFine_labelTrainIds.png"

HOLDING = add_to_catalogue(
    Holding(
        name="cityscapes",
        title="Cityscapes: street scenes of 2048x1024 with fine label maps",
        task="segmentation",
        train_count=2_975,
        test_count=500,
        classes=19,
        source=Source.BY_HAND,
        terms="its own licence, for research and other purposes without profit",
        site="https://www.cityscapes-dataset.com/downloads/",
        files=(
            OfficialFile(
                name="leftImg8bit_trainvaltest.zip",
                md5="0a6e97e94b616a514066c9e2adb0c97f",
                size_bytes=11_592_327_197,
                unpacking=Unpacking(folder="leftImg8bit", target="cityscapes/leftImg8bit"),
            ),
            OfficialFile(
                name="gtFine_trainvaltest.zip",
                md5="4237c19de34c8a376e9ba46b495d6f66",
                size_bytes=252_567_705,
                unpacking=Unpacking(folder="gtFine", target="cityscapes/gtFine"),
            ),
        ),
        layouts=(
            Layout(("cityscapes/leftImg8bit", "cityscapes/gtFine")),
            Layout(("leftImg8bit", "gtFine")),
        ),
        holds=f"{_FOLDER}/{_IMAGES}/ and {_FOLDER}/{_MAPS}/",
        counts={"height": 1_024, "width": 2_048},
    )
)


@DATASETS.register("cityscapes")
def cityscapes(
    root: Path | None = None, *, crop: int = 688, workers: int | None = None
) -> ImageSet:
    """Load Cityscapes with its fine annotation, read from disk on demand.

    Pool images are cut out of the centre and training images at random, half of them mirrored;
    test images, those of the validation split, are whole.

    Args:
        root: The folder of data sets; the images are ``cityscapes/leftImg8bit`` and
            ``cityscapes/gtFine`` in it.
        crop: The side of the square that is cut out.
        workers: Processes that read ahead; by default up to eight, one core left.

    Raises:
        DataError: If they are not under ``root``, or are incomplete.
        InputError: If an option cannot be used.
    """
    check_side("crop", crop)
    count = choose_workers(workers)
    with complete_copy(HOLDING, root) as folder:
        place = _find(folder)
        train = _list(place, "train", HOLDING.train_count)
        test = _list(place, "val", HOLDING.test_count)
    # A map is decoded in a third of the time that its image takes.
    helpers = min(count, max(1, count // 4))
    square, whole = (crop, crop), (HOLDING.counts["height"], HOLDING.counts["width"])

    def images(files: SceneFiles, sides: tuple[int, int], cut: int | None) -> Streamed:
        reader = SceneReader(files, whole, cut)
        return Streamed(reader, len(files), (3, *sides), torch.uint8, workers=count)

    def maps(files: SceneFiles, sides: tuple[int, int], cut: int | None) -> Streamed:
        reader = MapReader(files, whole, cut)
        return Streamed(reader, len(files), sides, torch.uint8, workers=helpers)

    return ImageSet(
        name="cityscapes",
        classes=CLASSES,
        train_images=images(train, square, crop),
        train_labels=SealedLabels(maps(train, square, crop)),
        test_images=images(test, whole, None),
        test_labels=maps(test, whole, None),
        mean=(0.290101, 0.328081, 0.286964),
        std=(0.182954, 0.186566, 0.184475),
        augmentation="own",
        task="segmentation",
    )


def _find(root: Path) -> Path:
    for place in (root / _FOLDER, root):
        if (place / _IMAGES).is_dir():
            return place
    raise DataError(f"{root / _FOLDER / _IMAGES}: Cityscapes is not there")


def _list(place: Path, split: str, count: int) -> SceneFiles:
    folder, maps = place / _IMAGES / split, place / _MAPS / split
    images = list_files(folder, list_folders(folder), (_IMAGE_END.lower(),))
    check_count(len(images), count, f"{folder}")
    ends = (_CLASSES_END, _IDS_END)
    annotated = list_files(maps, list_folders(maps), tuple(end.lower() for end in ends))
    present = {annotated.name(row) for row in range(len(annotated))}
    kinds = np.empty(len(images), dtype=np.uint8)
    for row in range(len(images)):
        stem = images.name(row)[: -len(_IMAGE_END)]
        # Maps of the 19 classes are made by a script of the data set's authors, if at all.
        kind = next((k for k, end in enumerate(ends) if stem + end in present), None)
        if kind is None:
            raise DataError(f"{maps / (stem + _IDS_END)}: missing")
        kinds[row] = kind
    return SceneFiles(images, len(_IMAGE_END), str(maps), ends, _make_tables(), kinds)


def _make_tables() -> npt.NDArray[np.uint8]:
    """Return the class of each byte in maps of classes and of label ids [2, 256]."""
    tables = np.full((2, 256), NO_LABEL, dtype=np.uint8)
    tables[:, IGNORED] = IGNORED
    tables[0, : len(CLASSES)] = np.arange(len(CLASSES))
    tables[1, :_ALL_IDS] = IGNORED
    tables[1, list(_LABEL_IDS)] = np.arange(len(CLASSES))
    return tables
