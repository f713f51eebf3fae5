"""Size limits for images: phone photos may exceed Pillow's limit, other formats may not."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from steepest.data.formats import IMAGE_FORMATS

if TYPE_CHECKING:  # Pillow is imported by the first image
    from PIL import Image

MOST_JPEG_PIXELS = 210_000_000
"""As large as the photos of telephones get; of other files Pillow opens 179 million at most."""

LONGEST_SIDE = 65_535
"""In pixels, as in a JPEG file; rows and columns that are longer cost gigabytes to make smaller."""

_LARGEST_TILE = 4096
_TILE_WIDTH, _TILE_HEIGHT = 0x0142, 0x0143

_GAP = 3
"""Oversampling kept when a photo is decoded at a reduced size."""


def open_image(path: Path) -> Image.Image:
    """Open a file, without decoding it yet.

    A file of a few kilobytes may hold an image that takes gigabytes in memory. What is let through
    takes about one.

    Raises:
        Exception: Whatever decoders raise for what they cannot read, or find too large.
    """
    image = _open(path)
    try:
        _check_size(image)
    except BaseException:
        image.close()
        raise
    return image


def _open(path: Path) -> Image.Image:
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


def _check_size(image: Image.Image) -> None:
    """Refuse an image, as opened, that would take far more memory than others of as many pixels.

    Raises:
        DecompressionBombError: Saying why.
    """
    from PIL import Image

    if max(image.size) > LONGEST_SIDE:
        raise Image.DecompressionBombError(
            f"{image.width}x{image.height} pixels; no side may be longer than {LONGEST_SIDE}"
        )
    most = Image.MAX_IMAGE_PIXELS
    # Four copies of the whole are made of it while it is decoded.
    if image.format == "WEBP" and most is not None and image.width * image.height > most:
        raise Image.DecompressionBombError(
            f"{image.width}x{image.height} pixels; a WebP file may have {most}"
        )
    # Room is made for a whole tile, however little of it is in the image.
    tags = getattr(image, "tag_v2", {})
    for tag, side in ((_TILE_WIDTH, image.width), (_TILE_HEIGHT, image.height)):
        if tags.get(tag, 0) > max(_LARGEST_TILE, side + 15):
            raise Image.DecompressionBombError("tiles that are far larger than the image")


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
