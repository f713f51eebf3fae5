"""Scenes and the maps of their labels, cut out and mirrored alike."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from steepest.data.file_table import FileTable
from steepest.data.image_decoding import (
    IMAGE_FORMATS,
    ORIENTATION,
    refuse_pages,
    refuse_wide_pixels,
    to_eight_bits,
)
from steepest.data.image_view import decoding
from steepest.errors import DataError

if TYPE_CHECKING:  # Pillow is imported by the first image
    from PIL import Image

IGNORED = 255
"""The label of a pixel that does not count."""

NO_LABEL = 254
"""In a table of labels: a byte that a map must not hold."""

_MAP_MODES = ("L", "P", "1")


@dataclass(frozen=True, eq=False)
class SceneFiles:
    """Images, and where their label maps are.

    Attributes:
        images: The images.
        image_end: How many characters at the end of an image's name a map's name does not share.
        maps: The folder of the maps, whose folders are called as those of the images.
        map_ends: How the names of maps end, for each kind of map.
        tables: The meaning of each byte, for each kind of map [kinds, 256].
        kinds: The kind of each image's map [N].
    """

    images: FileTable
    image_end: int
    maps: str
    map_ends: tuple[str, ...]
    tables: npt.NDArray[np.uint8]
    kinds: npt.NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.images)

    def map_path(self, row: int) -> Path:
        """Return where an image's label map is."""
        stem = self.images.name(row)[: -self.image_end]
        return Path(self.maps, stem + self.map_ends[self.kinds[row]])


class _Cutting:
    """Settings shared by both readers.

    Args:
        files: Images and maps.
        whole: Height and width of what is not cut.
        crop: The side of the square that is cut out: of the centre, or at random when augmented,
            and then half of them mirrored. None leaves all whole.
    """

    def __init__(self, files: SceneFiles, whole: tuple[int, int], crop: int | None) -> None:
        self.draws = 0 if crop is None else 3
        self._files = files
        self._whole = whole
        self._crop = crop


class SceneReader(_Cutting):
    """Reads images, uint8 [3, H, W]."""

    def __call__(self, row: int, draw: Tensor | None) -> Tensor:
        """Read one image.

        Args:
            row: Which one.
            draw: Numbers that decide top, left and mirroring [3].

        Raises:
            DataError: If the file is damaged or gone, or not of the right size.
        """
        from PIL import Image

        path = self._files.images.path(row)
        with decoding(path), Image.open(path, formats=IMAGE_FORMATS) as image:
            refuse_wide_pixels(image)
            refuse_pages(image)
            _refuse_turned(path, image)
            pixels = np.asarray(to_eight_bits(image).convert("RGB"))
        if self._crop is None:
            _check_size(path, pixels.shape[:2], self._whole)
        else:
            pixels = cut(pixels, self._crop, draw, fill=None)
        return torch.from_numpy(np.ascontiguousarray(pixels.transpose(2, 0, 1)))


class MapReader(_Cutting):
    """Reads label maps, uint8 [H, W], just as ``SceneReader`` reads their images."""

    def __call__(self, row: int, draw: Tensor | None) -> Tensor:
        """Read one label map.

        Args:
            row: Which one.
            draw: Numbers that decide top, left and mirroring [3].

        Raises:
            DataError: If the file is damaged or gone, holds what is no label, or is not of the
                size of its image.
        """
        labels = self.read_labels(row)
        _check_size(self._files.map_path(row), labels.shape, self._size_of_image(row))
        if self._crop is None:
            _check_size(self._files.map_path(row), labels.shape, self._whole)
        else:
            labels = cut(labels, self._crop, draw, fill=IGNORED)
        return torch.from_numpy(np.ascontiguousarray(labels))

    def read_labels(self, row: int) -> npt.NDArray[np.uint8]:
        """Read one label map as it is in its file, uncut [H, W].

        Raises:
            DataError: If the file is damaged or gone, or holds what is no label.
        """
        from PIL import Image

        path = self._files.map_path(row)
        with decoding(path), Image.open(path, formats=IMAGE_FORMATS) as image:
            if image.mode not in _MAP_MODES:
                raise DataError(f"{path}: {image.mode} pixels, not one byte for each label")
            found = np.asarray(image, dtype=np.uint8)
        labels: npt.NDArray[np.uint8] = self._files.tables[self._files.kinds[row]][found]
        if (labels == NO_LABEL).any():
            number = int(found[labels == NO_LABEL][0])
            raise DataError(f"{path}: {number} is no label; correct or restore the file")
        return labels

    def _size_of_image(self, row: int) -> tuple[int, int]:
        from PIL import Image

        path = self._files.images.path(row)
        with decoding(path), Image.open(path, formats=IMAGE_FORMATS) as image:
            return image.height, image.width


def cut(
    pixels: npt.NDArray[np.uint8], side: int, draw: Tensor | None, *, fill: int | None
) -> npt.NDArray[np.uint8]:
    """Cut a square out of an image or a map [H, W, ...].

    Args:
        pixels: Where it is smaller than the square, it is made larger on both sides.
        side: Of the square.
        draw: Numbers that decide top, left and mirroring [3]; None takes the centre.
        fill: What is added where it is smaller; None reflects it.
    """
    missing = [max(0, side - length) for length in pixels.shape[:2]]
    if any(missing):
        room = [(less // 2, less - less // 2) for less in missing] + [(0, 0)] * (pixels.ndim - 2)
        mode: dict[str, Any] = {"mode": "reflect"} if fill is None else {"constant_values": fill}
        pixels = np.pad(pixels, room, **mode)
    free = [length - side for length in pixels.shape[:2]]
    if draw is None:
        top, left, mirrored = free[0] // 2, free[1] // 2, False
    else:
        top, left = (min(int(u * (f + 1)), f) for u, f in zip(draw.tolist(), free, strict=False))
        mirrored = bool(draw[2] < 0.5)
    square = pixels[top : top + side, left : left + side]
    return square[:, ::-1] if mirrored else square


def _refuse_turned(path: Path, image: Image.Image) -> None:
    """Refuse an image that may lie otherwise than its map, as sizes do not tell."""
    noted = image.getexif().get(ORIENTATION, 1)
    if noted in range(2, 5) or (noted in range(5, 9) and image.width == image.height):
        raise DataError(
            f"{path}: its camera noted that it is to be turned, and whether its label map is "
            "cannot be told; save it upright, without such a note"
        )


def _check_size(path: Path, found: tuple[int, ...], wanted: tuple[int, int]) -> None:
    if tuple(found) != tuple(wanted):
        raise DataError(
            f"{path}: {found[1]}x{found[0]} pixels instead of {wanted[1]}x{wanted[0]}; restore "
            "the file"
        )
