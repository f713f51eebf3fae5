"""One image file: is it readable, and its pixels as a tensor."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from steepest.data.cut_off import may_be_cut_off
from steepest.data.large_images import open_image, shrink_if_large
from steepest.data.quiet import QUIET
from steepest.errors import DataError, first_line

if TYPE_CHECKING:  # Pillow is imported by the first image
    from PIL import Image

ORIENTATION = 0x0112
"""The note of a camera on how it was held: 1 if upright, 5 to 8 if on a side."""

_SIDEWAYS = range(5, 9)
_WIDTH, _HEIGHT = 0x0100, 0x0101
_PAGE_KIND = 0x00FE
_NO_PAGE = 0b101  # A smaller copy, or a mask.
_LARGE_SIDE = 1024
"""Size at which photos beyond Pillow's limit are kept."""

_MOST_COPIES = 100  # Each is half the size of the one before; to go through a million takes hours.


def check_image(path: Path) -> tuple[int, int] | str:
    """Look at an image's header and end; it is decoded only where the end is in doubt.

    Returns:
        Its (height, width) once it is upright, or the reason why it cannot be used.
    """
    from PIL import Image

    try:
        with QUIET, open_image(path) as image:
            # The method of PNG files would decode the whole image first.
            width, height = upright_size(image, Image.Image.getexif(image))
            refuse_wide_pixels(image)
            refuse_pages(image)
            if may_be_cut_off(image, path):
                image.draft(None, (1, 1))  # Much quicker, and read to the end all the same.
                image.load()
            else:
                image.verify()
    except Exception as error:  # noqa: BLE001 - decoders raise almost anything on damaged bytes
        return explain_damage(error)
    return height, width


def read_pixels(path: Path, channels: int, size: tuple[int, int] | None) -> Tensor:
    """Read an image, upright as its camera meant it, resized if a size is given.

    Returns:
        Float pixels in 0..1 [C, H, W].

    Raises:
        DataError: If the file is damaged or gone.
    """
    from PIL import Image, ImageOps

    try:
        with QUIET, open_image(path) as opened:
            if size is not None:
                shrink_if_large(opened, max(size))
            image = to_eight_bits(ImageOps.exif_transpose(opened))
            image = image.convert("RGB" if channels == 3 else "L")
            if size is not None:
                image = image.resize((size[1], size[0]), Image.Resampling.BILINEAR)
            pixels = np.array(image, dtype=np.uint8).reshape(image.height, image.width, channels)
    except Exception as error:  # decoders raise almost anything on damaged bytes
        raise DataError(
            f"{path}: cannot be read ({explain_damage(error)}); restore the file or remove it"
        ) from error
    return torch.from_numpy(pixels).permute(2, 0, 1).contiguous().float() / 255


def read_picture(path: Path, needed_side: int = 0) -> Image.Image:
    """Read an image of any size, upright as its camera meant it, in colour.

    Args:
        path: The file.
        needed_side: A JPEG file may be decoded smaller, as long as no side gets shorter than this;
            0 leaves all as they are.

    Raises:
        DataError: Saying in a few words why it cannot be used.
    """
    from PIL import ImageOps

    try:
        with QUIET, open_image(path) as opened:
            refuse_wide_pixels(opened)
            refuse_pages(opened)
            shrink_if_large(opened, max(needed_side, _LARGE_SIDE))
            if needed_side:
                opened.draft("RGB", (needed_side, needed_side))
            return to_eight_bits(ImageOps.exif_transpose(opened)).convert("RGB")
    except Exception as error:  # decoders raise almost anything on damaged bytes
        raise DataError(explain_damage(error)) from error


def upright_size(image: Image.Image, exif: Image.Exif) -> tuple[int, int]:
    """Return (width, height) that an image, as opened, has once it is upright."""
    # What Pillow says of a TIFF file is turned already in some of its releases.
    tags = getattr(image, "tag_v2", None)
    width, height = image.size if tags is None else (tags[_WIDTH], tags[_HEIGHT])
    return (height, width) if exif.get(ORIENTATION) in _SIDEWAYS else (width, height)


def refuse_wide_pixels(image: Image.Image) -> None:
    """Refuse an image, as opened, of whose pixels it is not known what white is.

    Raises:
        ValueError: Saying what they are; conversion to bytes would cut them off.
    """
    # Older releases of Pillow open 16-bit PNG files in the 32-bit mode.
    if image.mode == "F" or (image.mode == "I" and image.format != "PNG"):
        raise ValueError(f"{image.mode} pixels, neither 8 nor 16 bits")


def refuse_pages(image: Image.Image) -> None:
    """Refuse a TIFF file, as opened, of several pages: which one is meant is not known.

    Smaller copies of the first page and masks, as scanners and editors add them, are no pages.

    Raises:
        ValueError: Saying what to do.
    """
    if image.format != "TIFF":
        return
    page = 1
    try:
        while True:
            image.seek(page)
            kind = getattr(image, "tag_v2", {}).get(_PAGE_KIND, 0)
            if page > _MOST_COPIES or not kind & _NO_PAGE:
                raise ValueError("several pages: save each as a file of its own")
            page += 1
    except EOFError:
        image.seek(0)


def to_eight_bits(image: Image.Image) -> Image.Image:
    """Return an image whose conversion to RGB or grey keeps what it shows."""
    from PIL import Image

    if image.mode.startswith("I"):
        # Pillow's own conversion cuts off at 255 instead of scaling.
        return Image.fromarray((np.asarray(image) // 257).astype(np.uint8))
    if image.mode == "P" and "transparency" in image.info:
        return image.convert("RGBA")
    return image


def explain_damage(error: Exception) -> str:
    """Say in a few words why an image could not be decoded."""
    if type(error).__name__ == "UnidentifiedImageError":
        return "not an image"
    if type(error).__name__ == "DecompressionBombError":
        return f"{first_line(error).partition(',')[0]}: save it smaller"
    return first_line(error)
