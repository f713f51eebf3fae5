"""Compact shards: images in lossless WebP strips, several to a strip, inside npz files.

A folder holds ``<split>_<k>.npz`` with ``data`` (the strips' bytes, one after another), ``off``
(where each strip starts, and the end) and ``shape`` (N, H, W, C); ``<split>_labels.npy`` with
classes or ``<split>_labels.npz`` with label maps under ``labels``; and ``classes.json``.
"""

from __future__ import annotations

import io
import itertools
import zipfile
import zlib
from pathlib import Path

import numpy as np
import numpy.typing as npt

from steepest.core.parsing import parse_json
from steepest.errors import DataError


def read_shards(folder: Path, split: str) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """Read all shards of a split.

    Returns:
        Images [N, C, H, W] and labels [N].

    Raises:
        DataError: If a file is missing or damaged.
    """
    images = _read_images(folder, split)
    return images, _read_labels(folder / f"{split}_labels.npy", len(images))


def read_map_shards(
    folder: Path, split: str
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]:
    """Read all shards of a split whose images have label maps.

    Returns:
        Images [N, C, H, W] and label maps [N, H, W].

    Raises:
        DataError: If a file is missing or damaged.
    """
    images = _read_images(folder, split)
    count, _, height, width = images.shape
    return images, _read_maps(folder / f"{split}_labels.npz", (count, height, width))


def read_classes(folder: Path) -> tuple[str, ...]:
    """Read the classes' names.

    Raises:
        DataError: If the file is missing or damaged.
    """
    path = folder / "classes.json"
    try:
        names = parse_json(path.read_bytes())
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: missing or damaged") from error
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise DataError(f"{path}: not a list of names")
    return tuple(names)


def _read_images(folder: Path, split: str) -> npt.NDArray[np.uint8]:
    paths = sorted(_numbered(folder, split).items())
    if not paths or [number for number, _ in paths] != list(range(len(paths))):
        missing = next(k for k in range(len(paths) + 1) if k not in dict(paths))
        raise DataError(f"{folder / f'{split}_{missing}.npz'}: missing")
    images = [_read_shard(path) for _, path in paths]
    if len({part.shape[1:] for part in images}) > 1:
        raise DataError(f"{folder}: shards of {split} differ in shape")
    return np.concatenate(images)


def _numbered(folder: Path, split: str) -> dict[int, Path]:
    found = ((path.stem.removeprefix(f"{split}_"), path) for path in folder.glob(f"{split}_*.npz"))
    return {int(number): path for number, path in found if number.isdecimal()}


def _read_shard(path: Path) -> npt.NDArray[np.uint8]:
    """Return the images [N, C, H, W] of one shard."""
    try:
        with path.open("rb") as file, np.load(file) as shard:
            data, offsets = shard["data"], shard["off"]
            count, height, width, channels = shard["shape"].tolist()
        images = np.empty((count, height, width, channels), dtype=np.uint8)
        done = 0
        for start, stop in itertools.pairwise(offsets):
            strip = _decode_strip(data[start:stop].tobytes(), channels)
            part = strip.reshape(-1, height, width, channels)
            images[done : done + len(part)] = part
            done += len(part)
    except (OSError, EOFError, KeyError, ValueError, zipfile.BadZipFile, zlib.error) as error:
        raise DataError(f"{path}: truncated or damaged") from error
    if done != count:
        raise DataError(f"{path}: holds {done} images, not {count}")
    return np.ascontiguousarray(images.transpose(0, 3, 1, 2))


def _decode_strip(data: bytes, channels: int) -> npt.NDArray[np.uint8]:
    from PIL import Image

    with Image.open(io.BytesIO(data), formats=["WEBP"]) as image:
        return np.asarray(image.convert("RGB" if channels == 3 else "L"), dtype=np.uint8)


def _read_labels(path: Path, count: int) -> npt.NDArray[np.int64]:
    try:
        with path.open("rb") as file:
            labels = np.load(file)
    except (OSError, EOFError, ValueError) as error:
        raise DataError(f"{path}: missing or damaged") from error
    if labels.ndim != 1 or labels.dtype.kind not in "iu" or len(labels) != count:
        raise DataError(f"{path}: not one label for each of {count} images")
    whole: npt.NDArray[np.int64] = labels.astype(np.int64)
    return whole


def _read_maps(path: Path, shape: tuple[int, int, int]) -> npt.NDArray[np.uint8]:
    try:
        with path.open("rb") as file, np.load(file) as stored:
            maps = stored["labels"]
    except (OSError, EOFError, KeyError, ValueError, zipfile.BadZipFile, zlib.error) as error:
        raise DataError(f"{path}: missing or damaged") from error
    if maps.dtype != np.uint8 or maps.shape != shape:
        raise DataError(f"{path}: not one label map for each of {shape[0]} images, of their size")
    whole: npt.NDArray[np.uint8] = maps
    return whole
