"""Image files that are larger than they are shown: how large they may be, and cheap shrinking."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from steepest.errors import DataError

if TYPE_CHECKING:  # Pillow is imported by the first picture
    from PIL import Image

MOST_PIXELS = 89_478_485
"""Pillow's own limit from which on it suspects a decompression bomb."""

MOST_JPEG_PIXELS = 210_000_000
"""As large as the photos of telephones get: so much is gone through, and not held in memory."""

_FORMATS = ("PNG", "JPEG", "BMP", "WEBP", "GIF", "TIFF")
"""What is decoded; other formats may start programs, or hide behind a harmless name."""


def open_image(path: Path) -> Image.Image:
    """Open a file, without decoding it yet.

    Raises:
        Exception: Whatever decoders raise for what they cannot read.
    """
    from PIL import Image
    from PIL.JpegImagePlugin import JpegImageFile

    try:
        return Image.open(path, formats=_FORMATS)
    except Image.DecompressionBombError as error:
        # Pillow judges by the whole; a JPEG file need not be decoded as a whole.
        try:
            return JpegImageFile(path)
        except SyntaxError:
            raise error from None


def shrink(image: Image.Image, side: int, name: str) -> None:
    """Have an open image decoded smaller where its format can, and refuse what stays too large.

    JPEG files can be decoded at a half, a quarter or an eighth at a fraction of the cost.

    Args:
        image: Nothing of it must have been decoded.
        side: The longest side that is needed, in pixels.
        name: What the file is called.

    Raises:
        DataError: If it could exhaust the memory.
    """
    width, height = image.size
    wanted = (side, side)
    if width * height > MOST_PIXELS:
        # Panoramas are short enough on one side that a square would keep them whole.
        longest = max(width, height)
        wanted = (max(1, width * side // longest), max(1, height * side // longest))
    if width * height <= _most_before(image):
        image.draft(None, wanted)
    if image.width * image.height > MOST_PIXELS:
        raise DataError(f"{name}: {width}x{height} pixels are more than {MOST_PIXELS}")


def _most_before(image: Image.Image) -> int:
    # Of a progressive file all coefficients are held, however small it is decoded.
    shrinks = image.format in ("JPEG", "MPO") and "progressive" not in image.info
    return MOST_JPEG_PIXELS if shrinks else MOST_PIXELS
