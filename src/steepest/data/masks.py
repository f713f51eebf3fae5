"""Images of your own and their label maps, each in its own folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from steepest.core.files import expand_home
from steepest.core.seeds import keyed_uniform
from steepest.core.wording import counted
from steepest.data.base import DATASETS, ImageSet
from steepest.data.file_table import FileTable, list_files, list_folders
from steepest.data.folder import SUFFIXES
from steepest.data.image_decoding import IMAGE_FORMATS
from steepest.data.image_view import IMAGENET_MEAN, IMAGENET_STD, check_side, decoding
from steepest.data.scene import IGNORED, NO_LABEL, MapReader, SceneFiles, SceneReader
from steepest.data.sealed import SealedLabels
from steepest.data.streamed import Streamed, choose_workers
from steepest.errors import DataError, InputError

_IMAGES, _MASKS = "images", "masks"
_TEST_FOLDERS = ("test", "val")
_ENDS = (".png", ".PNG", ".bmp", ".tif", ".tiff", ".gif")
_LAYOUT = (
    f"give FOLDER/{_IMAGES}/<name>.jpg and FOLDER/{_MASKS}/<name>.png, or both in FOLDER/train and "
    "FOLDER/test"
)
_LOOKED_AT = 16


@DATASETS.register("masks")
def masks(
    root: Path | None = None,
    *,
    path: str,
    classes: tuple[str, ...],
    crop: int = 0,
    test_share: float = 0.2,
    seed: int = 0,
    mean: tuple[float, ...] = IMAGENET_MEAN,
    std: tuple[float, ...] = IMAGENET_STD,
    workers: int | None = None,
) -> ImageSet:
    """Load your own images and the masks of their classes, read from disk on demand.

    A mask has one byte for each pixel, the number of its class, and 255 where none is known; the
    colours of a palette say nothing. Rows are in the order of names.

    Args:
        root: The folder of data sets, where ``path`` is looked for if it is nowhere else.
        path: ``images`` and ``masks``, of which a share becomes the test set, or ``train`` and
            ``test`` (or ``val``) with these two in them. A mask is called as its image is, but
            for the ending.
        classes: The classes' names, from class 0 on.
        crop: The side of the square that is cut out: of the centre, or in training at random; what
            is smaller is made larger, without labels there. 0 leaves images whole, which must
            then be of one size.
        test_share: The share that is for testing, where there is no test folder.
        seed: Decides which.
        mean: Per channel, on the 0..1 scale [3].
        std: Per channel, on the same scale [3].
        workers: Processes that read ahead; by default up to eight, one core left.

    Raises:
        DataError: If an image has no mask, or they cannot be used.
        InputError: If an option cannot be used.
    """
    if not 2 <= len(classes) < NO_LABEL:
        raise InputError(f"{len(classes)} classes; give the names of 2 to {NO_LABEL - 1}")
    if crop:
        check_side("crop", crop)
    if not 0 < test_share < 1:
        raise InputError(f"test_share is {test_share!r}; give a share between 0 and 1")
    place = _find(path, root)
    count = choose_workers(workers)
    (train, train_rows), (test, test_rows) = _split(place, test_share, seed, len(classes))
    for files in (train, test):
        _look_at_masks(files)
    sides = (crop, crop) if crop else _one_size([train, test])

    def columns(files: SceneFiles, rows: list[int]) -> tuple[Streamed, Streamed]:
        images = SceneReader(files, sides, crop or None)
        maps = MapReader(files, sides, crop or None)
        return (
            Streamed(images, len(files), (3, *sides), torch.uint8, workers=count).take(rows),
            Streamed(maps, len(files), sides, torch.uint8, workers=count).take(rows),
        )

    images, maps = columns(train, train_rows)
    test_images, test_maps = columns(test, test_rows)
    return ImageSet(
        name="masks",
        classes=tuple(classes),
        train_images=images,
        train_labels=SealedLabels(maps),
        test_images=test_images,
        test_labels=test_maps,
        mean=tuple(mean),
        std=tuple(std),
        augmentation="own" if crop else "flip",
        task="segmentation",
    )


@dataclass(frozen=True, eq=False)
class _Pairs(SceneFiles):
    """Images and masks of the same names, whatever the images' endings are."""

    def map_path(self, row: int) -> Path:
        """Return where an image's mask is."""
        return Path(self.maps, _stem(self.images, row) + self.map_ends[self.kinds[row]])


def _stem(images: FileTable, row: int) -> str:
    return images.name(row).partition("/")[2].rpartition(".")[0]


def _find(path: str, root: Path | None) -> Path:
    given = expand_home(path)
    places = [given] if root is None else [given, root / given]
    found = next((place for place in places if place.is_dir()), None)
    if found is None:
        raise DataError(f"{given}: no such folder; {_LAYOUT}")
    return found


def _split(
    place: Path, share: float, seed: int, classes: int
) -> list[tuple[SceneFiles, list[int]]]:
    """Return files and rows of those to learn from and of those to test on."""
    inside = list_folders(place)
    if "train" in inside:
        name = next((name for name in _TEST_FOLDERS if name in inside), None)
        if name is None:
            raise DataError(f"{place}: train is there, but neither test nor val; {_LAYOUT}")
        parts = [_list(place / part, classes) for part in ("train", name)]
        return [(part, list(range(len(part)))) for part in parts]
    files = _list(place, classes)
    held = round(share * len(files))
    if not 0 < held < len(files):
        raise InputError(
            f"test_share is {share}; {counted(len(files), 'image')} cannot be split so"
        )
    names = [_stem(files.images, row) for row in range(len(files))]
    order = np.argsort(keyed_uniform(seed, "masks split", names)[:, 0], kind="stable").tolist()
    return [(files, sorted(order[held:])), (files, sorted(order[:held]))]


def _list(place: Path, classes: int) -> SceneFiles:
    for name in (_IMAGES, _MASKS):
        if not (place / name).is_dir():
            raise DataError(f"{place / name}: no such folder; {_LAYOUT}")
    images = list_files(place, [_IMAGES], tuple(sorted(SUFFIXES)))
    if not len(images):
        raise DataError(f"{place / _IMAGES}: no images in it; {_LAYOUT}")
    found = list_files(place, [_MASKS], tuple({end.lower() for end in _ENDS}))
    present = {found.name(row).partition("/")[2] for row in range(len(found))}
    kinds = np.empty(len(images), dtype=np.uint8)
    for row in range(len(images)):
        stem = _stem(images, row)
        kind = next((k for k, end in enumerate(_ENDS) if stem + end in present), None)
        if kind is None:
            raise DataError(
                f"{images.path(row)}: no mask {_MASKS}/{stem}.png for it; add one, 255 wherever no "
                "class is known, or remove the image"
            )
        kinds[row] = kind
    table = np.full((len(_ENDS), 256), NO_LABEL, dtype=np.uint8)
    table[:, :classes] = np.arange(classes)
    table[:, IGNORED] = IGNORED
    return _Pairs(images, 0, str(place / _MASKS), _ENDS, table, kinds)


def _look_at_masks(files: SceneFiles) -> None:
    """Raise on masks of black and white, whose white would be read as unknown."""
    reader = MapReader(files, (0, 0), None)
    values: set[int] = set()
    for row in range(min(len(files), _LOOKED_AT)):
        values |= set(np.unique(reader.read_labels(row)).tolist())
    if values == {0, IGNORED}:
        raise DataError(
            f"{files.maps}: masks hold 0 and {IGNORED} alone, and {IGNORED} is where no class is "
            f"known: save 1 instead, if {IGNORED} is meant to be a class"
        )


def _one_size(parts: list[SceneFiles]) -> tuple[int, int]:
    """Return height and width of all images."""
    from PIL import Image

    first: tuple[Path, tuple[int, int]] | None = None
    for files in parts:
        for row in range(len(files)):
            path = files.images.path(row)
            with decoding(path), Image.open(path, formats=IMAGE_FORMATS) as image:
                size = image.height, image.width
            first = (path, size) if first is None else first
            if size != first[1]:
                found, wanted = (f"{s[1]}x{s[0]}" for s in (size, first[1]))
                raise DataError(
                    f"{path}: {found} pixels, but {first[0].name} has {wanted}; set crop to the "
                    "side of a square to cut out"
                )
    if first is None:
        raise DataError("there are no images")
    return first[1]
