"""The image files of an official folder, read into one array in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from steepest.core.devices import usable_cores
from steepest.data.image_decoding import IMAGE_FORMATS
from steepest.errors import DataError, first_line

Pixels = npt.NDArray[np.uint8]

_THREADS = 8


@dataclass(frozen=True)
class SquareCrop:
    """Squeeze an image into a square and cut out its middle.

    Attributes:
        squeezed: The square's side in pixels.
        side: The side of the middle part in pixels.
    """

    squeezed: int
    side: int


def list_images(folder: Path, suffix: str) -> list[Path]:
    """Return the files of a folder with that ending, in order of their names."""
    # Copies that went through a Mac have a hidden companion beside each file.
    found = (p for p in folder.iterdir() if p.suffix.lower() == suffix and p.name[0] != ".")
    return sorted(found, key=lambda path: path.name)


def read_images(paths: Sequence[Path], crop: SquareCrop | None = None) -> Pixels:
    """Read colour images of one size, or that are made so.

    Returns:
        Pixels [N, 3, H, W].

    Raises:
        DataError: If one cannot be read, or has another size than the first.
    """
    return _read_all(paths, partial(_read_colours, crop=crop))


def read_label_maps(paths: Sequence[Path]) -> Pixels:
    """Read images whose pixels are class numbers.

    Returns:
        Class numbers [N, H, W].

    Raises:
        DataError: If one cannot be read, is in colours, or has another size than the first.
    """
    return _read_all(paths, _read_classes)


def _read_all(paths: Sequence[Path], read: Callable[[Path], Pixels]) -> Pixels:
    first = read(paths[0])
    stacked = np.empty((len(paths), *first.shape), dtype=np.uint8)

    def fill(row: int) -> None:
        pixels = read(paths[row])
        if pixels.shape != first.shape:
            sizes = [f"{p.shape[-1]}x{p.shape[-2]}" for p in (pixels, first)]
            raise DataError(f"{paths[row]}: {sizes[0]} pixels, but {paths[0].name} has {sizes[1]}")
        stacked[row] = pixels

    # Decoders work outside of Python's lock, so that threads are enough.
    with ThreadPoolExecutor(min(_THREADS, usable_cores())) as pool:
        for _ in pool.map(fill, range(len(paths))):
            pass
    return stacked


def _read_colours(path: Path, crop: SquareCrop | None) -> Pixels:
    """Return one image [3, H, W]."""
    from PIL import Image

    try:
        with Image.open(path, formats=IMAGE_FORMATS) as opened:
            image = opened.convert("RGB")
    except Exception as error:  # decoders raise almost anything on damaged bytes
        raise _explain(path, error) from error
    if crop is not None:
        start = (crop.squeezed - crop.side) // 2
        image = image.resize((crop.squeezed, crop.squeezed), Image.Resampling.BILINEAR)
        image = image.crop((start, start, start + crop.side, start + crop.side))
    return np.asarray(image, dtype=np.uint8).transpose(2, 0, 1)


def _read_classes(path: Path) -> Pixels:
    """Return one map [H, W]."""
    from PIL import Image

    try:
        with Image.open(path, formats=IMAGE_FORMATS) as image:
            mode, numbers = image.mode, np.array(image)
    except Exception as error:  # decoders raise almost anything on damaged bytes
        raise _explain(path, error) from error
    # A palette's colours are for the eye: its numbers are the classes.
    if mode not in ("L", "P"):
        raise DataError(f"{path}: {mode} pixels, not a map of class numbers")
    return numbers.astype(np.uint8)


def _explain(path: Path, error: Exception) -> DataError:
    if isinstance(error, FileNotFoundError):
        return DataError(f"{path}: missing")
    return DataError(f"{path}: truncated or damaged ({first_line(error)})")
