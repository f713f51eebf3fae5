"""A view of an image file: a crop, resized to a square and possibly mirrored."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from steepest.data.file_table import FileTable
from steepest.data.image_decoding import (
    QUIET,
    explain_damage,
    open_image,
    refuse_pages,
    refuse_wide_pixels,
    to_eight_bits,
    upright_size,
)
from steepest.errors import DataError, InputError, SteepestError

if TYPE_CHECKING:  # Pillow is imported by the first image
    from PIL import Image

Box = tuple[float, float, float, float]
"""Left, top, right and bottom, in pixels of the whole image."""

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)

_AREAS = (0.08, 1.0)
_RATIOS = (3 / 4, 4 / 3)
_REDUCING_GAP = 3.0
"""Oversampling kept by the fast reduction; more makes no visible difference."""


class ViewReader:
    """Reads square views of image files, uint8 [3, S, S].

    As scored and tested: the shorter side resized, and the centre cut out. Augmented: a random
    box of 8 % to 100 % of the area, and half of the images mirrored.

    Args:
        files: The images.
        size: The side of what is seen, S.
        shorter: The length that the shorter side is resized to; at least the size.
    """

    draws = 5

    def __init__(self, files: FileTable, size: int, shorter: int) -> None:
        self._files = files
        self._size = size
        self._shorter = shorter

    def __call__(self, row: int, draw: Tensor | None) -> Tensor:
        """Read one image.

        Args:
            row: Which one.
            draw: Numbers that decide area, ratio, top, left and mirroring [5].

        Raises:
            DataError: If the file is damaged or gone.
        """
        path = self._files.path(row)
        with decoding(path), open_image(path) as image:
            width, height = upright_size(image, image.getexif())
            if draw is None:
                box, mirrored = centre_box(width, height, self._size, self._shorter), False
            else:
                area, ratio, top, left, mirror = draw.tolist()
                box, mirrored = random_box(width, height, area, ratio, top, left), mirror < 0.5
            return see(image, box, self._size, mirrored=mirrored)


def check_side(option: str, value: int) -> None:
    """Raise if it cannot be the side of a square.

    Raises:
        InputError: Naming the option.
    """
    if type(value) is not int or value < 1:
        raise InputError(f"{option} is {value!r}; give the side of the square in pixels")


@contextmanager
def decoding(path: Path) -> Iterator[None]:
    """Describe the fault of an image file in one line, without warnings about oddities.

    Raises:
        DataError: Instead of whatever a decoder raises.
    """
    try:
        with QUIET:
            yield
    except SteepestError:
        raise
    except Exception as error:  # decoders raise almost anything on damaged bytes
        raise DataError(
            f"{path}: cannot be read ({explain_damage(error)}); restore the file or remove it"
        ) from error


def see(image: Image.Image, box: Box, size: int, *, mirrored: bool = False) -> Tensor:
    """Return a box of an image as colours, resized with antialiasing: uint8 [3, S, S].

    Args:
        image: As opened; it is turned upright as its camera meant it.
        box: In pixels of the upright image.
        size: The side S.
        mirrored: Whether left and right change places.
    """
    from PIL import Image, ImageOps

    refuse_wide_pixels(image)
    refuse_pages(image)
    width, height = upright_size(image, image.getexif())
    shrink = size * _REDUCING_GAP / min(box[2] - box[0], box[3] - box[1])
    # JPEG files can be decoded at a half, a quarter or an eighth at a fraction of the cost.
    image.draft(None, (math.ceil(image.width * shrink), math.ceil(image.height * shrink)))
    upright = to_eight_bits(ImageOps.exif_transpose(image)).convert("RGB")
    across, down = upright.width / width, upright.height / height
    square = upright.resize(
        (size, size),
        Image.Resampling.BILINEAR,
        box=(box[0] * across, box[1] * down, box[2] * across, box[3] * down),
        reducing_gap=_REDUCING_GAP,
    )
    if mirrored:
        square = square.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    return torch.from_numpy(np.array(square)).permute(2, 0, 1).contiguous()


def centre_box(width: int, height: int, size: int, shorter: int) -> Box:
    """Return the box that is left when the shorter side is resized and the centre cut out."""
    short = min(width, height)
    # Whole pixels of the resized image, as if it had been resized first and cropped then.
    across, down = (shorter * side // short for side in (width, height))
    left, top = round((across - size) / 2), round((down - size) / 2)
    return (
        left * width / across,
        top * height / down,
        min((left + size) * width / across, width),
        min((top + size) * height / down, height),
    )


def random_box(width: int, height: int, area: float, ratio: float, top: float, left: float) -> Box:
    """Return a box of random area, ratio and place, each decided by a number in [0, 1)."""
    share = _AREAS[0] + (_AREAS[1] - _AREAS[0]) * area
    # Ratios at which a box of this area is no longer than the image: no draw is thrown away.
    lowest = max(_RATIOS[0], share * width / height)
    highest = min(_RATIOS[1], width / height / share)
    if lowest < highest:
        shape = math.exp(math.log(lowest) + ratio * (math.log(highest) - math.log(lowest)))
        across = min(math.sqrt(width * height * share * shape), width)
        down = min(math.sqrt(width * height * share / shape), height)
    else:
        shape = min(max(width / height, _RATIOS[0]), _RATIOS[1])
        across, down = min(width, height * shape), min(height, width / shape)
    x, y = (width - across) * left, (height - down) * top
    return x, y, min(x + across, width), min(y + down, height)
