"""ImageNet: 1.28 million photographs in a thousand classes (ILSVRC 2012)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

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
from steepest.data.copy_checks import check_count, check_names, complete_copy
from steepest.data.file_table import FileTable, list_files, list_folders
from steepest.data.image_view import IMAGENET_MEAN, IMAGENET_STD, ViewReader, check_side
from steepest.data.sealed import SealedLabels
from steepest.data.streamed import Streamed, choose_workers
from steepest.errors import DataError

_FOLDER = "imagenet"
_SUFFIXES = (".jpeg",)
_NAMES = "LOC_synset_mapping.txt"
_DEVKIT = "ILSVRC2012_devkit_t12.tar.gz"

HOLDING = add_to_catalogue(
    Holding(
        name="imagenet",
        title="ImageNet: photographs of the ILSVRC challenge of 2012",
        task="classification",
        train_count=1_281_167,
        test_count=50_000,
        classes=1_000,
        source=Source.BY_HAND,
        terms="its own terms of access, for research and education without profit",
        site="https://image-net.org/download-images",
        files=(
            OfficialFile(name=_DEVKIT, md5="fa75699e90414af021442c21a62c3abf"),
            OfficialFile(
                name="ILSVRC2012_img_train.tar",
                md5="1d675b47d978889d74fa0da5fadfb00e",
                size_bytes=147_897_477_120,
                unpacking=Unpacking(folder="", target="imagenet/train", nested=True),
            ),
            OfficialFile(
                name="ILSVRC2012_img_val.tar",
                md5="29b22e2961454d5413ddabcf34fc5622",
                size_bytes=6_744_924_160,
                unpacking=Unpacking(folder="", target="imagenet/val", sorted_by=_DEVKIT),
            ),
        ),
        layouts=(Layout(("imagenet/train", "imagenet/val")),),
        holds=f"{_FOLDER}/train/<wnid>/ and {_FOLDER}/val/<wnid>/",
    )
)


@DATASETS.register("imagenet")
def imagenet(root: Path | None = None, *, size: int = 224, workers: int | None = None) -> ImageSet:
    """Load ImageNet from its official files, read from disk on demand.

    Pool and test images have their shorter side resized to 8/7 of the size (256 for 224) and the
    centre cut out; for training, a random box is resized and half of them are mirrored.

    Args:
        root: The folder of data sets; the images are ``imagenet/train/<wnid>/*.JPEG`` and
            ``imagenet/val/<wnid>/*.JPEG`` in it.
        size: The side of the images.
        workers: Processes that read ahead; by default up to eight, one core left.

    Raises:
        DataError: If they are not under ``root``, or are incomplete.
        InputError: If an option cannot be used.
    """
    check_side("size", size)
    count = choose_workers(workers)
    with complete_copy(HOLDING, root) as folder:
        place = folder / _FOLDER
        if not place.is_dir():
            raise DataError(f"{place}: ImageNet is not there")
        wnids = list_folders(place / "train")
        check_names(tuple(wnids), HOLDING.classes, f"{place / 'train'}")
        train = _list(place / "train", wnids, HOLDING.train_count)
        test = _list(place / "val", wnids, HOLDING.test_count)
        classes = _name_classes(place / _NAMES, wnids)

    def images(files: FileTable) -> Streamed:
        reader = ViewReader(files, size, size * 8 // 7)
        return Streamed(reader, len(files), (3, size, size), torch.uint8, workers=count)

    return ImageSet(
        name="imagenet",
        classes=classes,
        train_images=images(train),
        train_labels=SealedLabels(torch.from_numpy(train.folder_of)),
        test_images=images(test),
        test_labels=torch.from_numpy(test.folder_of),
        mean=IMAGENET_MEAN,
        std=IMAGENET_STD,
        augmentation="own",
    )


def _list(folder: Path, wnids: Sequence[str], count: int) -> FileTable:
    found = list_folders(folder)
    if not found:
        raise DataError(f"{folder}: no folders of classes in it; sort its images into them")
    different = set(found).symmetric_difference(wnids)
    if different:
        name = min(different)
        state = "missing" if name in wnids else "no such class in train"
        raise DataError(f"{folder / name}: {state}")
    files = list_files(folder, wnids, _SUFFIXES)
    check_count(len(files), count, f"{folder}")
    return files


def _name_classes(path: Path, wnids: Sequence[str]) -> tuple[str, ...]:
    """Return the classes' names where the file that lists them is there, or else their ids."""
    if not path.is_file():
        return tuple(wnids)
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: cannot be read") from error
    named = dict(line.strip().split(" ", 1) for line in lines if " " in line.strip())
    missing = [wnid for wnid in wnids if wnid not in named]
    if missing:
        raise DataError(f"{path}: {missing[0]} is not in it")
    # Two classes are called "crane": a bird and a machine.
    uses = Counter(named[wnid] for wnid in wnids)
    return tuple(n if uses[n := named[w]] == 1 else f"{n} ({w})" for w in wnids)
