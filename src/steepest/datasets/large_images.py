"""Photos that are larger than Pillow opens, as telephones make them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from steepest.datasets.formats import IMAGE_FORMATS

if TYPE_CHECKING:  # Pillow is imported by the first image
    from PIL import Image

MOST_JPEG_PIXELS = 210_000_000
"""As large as the photos of telephones get; of other files Pillow opens 179 million at most."""

_GAP = 3
"""How many times larger than wanted a photo stays when it is decoded smaller."""


def open_image(path: Path) -> Image.Image:
    """Open a file, without decoding it yet.

    Raises:
        Exception: Whatever decoders raise for what they cannot read, or find too large.
    """
    from PIL import Image
    from PIL.JpegImagePlugin import JpegImageFile

    try:
        return Image.open(path, formats=IMAGE_FORMATS)
    except Image.DecompressionBombError as error:
        # Pillow judges by the whole; a JPEG file need not be decoded as a whole.
        try:
            photo = JpegImageFile(path)
        except SyntaxError:
            raise error from None
        # Of a progressive file all coefficients are held, however small it is decoded.
        if photo.width * photo.height > MOST_JPEG_PIXELS or "progressive" in photo.info:
            photo.close()
            raise
        return photo


def shrink_if_large(image: Image.Image, side: int) -> None:
    """Have an open photo that Pillow would refuse decoded smaller, at a fraction of the memory.

    Args:
        image: Nothing of it must have been decoded.
        side: The longest side that is needed, in pixels.
    """
    from PIL import Image

    suspicious = Image.MAX_IMAGE_PIXELS
    if suspicious is not None and image.width * image.height > 2 * suspicious:
        image.draft(None, (_GAP * side, _GAP * side))
