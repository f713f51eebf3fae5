"""Image files: formats, size limits, truncated copies, and decoding to a tensor."""

from __future__ import annotations

import os
import threading
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from steepest.errors import DataError, first_line

IMAGE_FORMATS = ("PNG", "JPEG", "BMP", "WEBP", "GIF", "TIFF")
"""By Pillow's names. Others may hide behind a harmless ending; PostScript starts a program."""


if TYPE_CHECKING:  # Pillow is imported by the first image
    from PIL import Image

_LAST_BYTES = {"JPEG": b"\xff\xd9", "MPO": b"\xff\xd9", "GIF": b";"}
_TAIL = 4096
_STRIPS, _TILES = (273, 279), (324, 325)
"""The entries of a TIFF file that say where its pixels begin, and how many bytes they take."""
MOST_JPEG_PIXELS = 210_000_000
"""As large as the photos of telephones get; of other files Pillow opens 179 million at most."""

LONGEST_SIDE = 65_535
"""In pixels, as in a JPEG file; rows and columns that are longer cost gigabytes to make smaller."""

_LARGEST_TILE = 4096
_TILE_WIDTH, _TILE_HEIGHT = 0x0142, 0x0143
_GAP = 3
"""Oversampling kept when a photo is decoded at a reduced size."""

ORIENTATION = 0x0112
"""The note of a camera on how it was held: 1 if upright, 5 to 8 if on a side."""

_SIDEWAYS = range(5, 9)
_WIDTH, _HEIGHT = 0x0100, 0x0101
_PAGE_KIND = 0x00FE
_NO_PAGE = 0b101  # A smaller copy, or a mask.
_LARGE_SIDE = 1024
"""Size at which photos beyond Pillow's limit are kept."""

_MOST_COPIES = 100  # Each is half the size of the one before; to go through a million takes hours.


def may_be_cut_off(image: Image.Image, path: Path) -> bool:
    """Say whether a file does not end as its format wants, without decoding it.

    It may be whole nevertheless: some telephones put a film behind the photo. PNG and WebP files
    are none of these formats, for Pillow looks through them by itself.

    Args:
        image: As opened.
        path: Its file.
    """
    size = path.stat().st_size
    if image.format in _LAST_BYTES:
        # Some cameras fill up the last block of the card.
        return not _tail(path, size).rstrip(b"\0").endswith(_LAST_BYTES[image.format])
    if image.format == "BMP":
        return size < _bmp_size(path)
    if image.format == "TIFF":
        return size < _end_of_pixels(image)
    return False


def _tail(path: Path, size: int) -> bytes:
    with path.open("rb") as file:
        file.seek(max(0, size - _TAIL), os.SEEK_SET)
        return file.read()


def _bmp_size(path: Path) -> int:
    with path.open("rb") as file:
        return int.from_bytes(file.read(6)[2:], "little")


def _end_of_pixels(image: Image.Image) -> int:
    tags = getattr(image, "tag_v2", {})
    ends = [0]
    for where, length in (_STRIPS, _TILES):
        ends += [a + b for a, b in zip(tags.get(where, ()), tags.get(length, ()), strict=False)]
    return max(ends)


class Quiet:
    """Ignores warnings from the first thread's entry to the last one's exit.

    Pillow does not say which file it warns of. Among what it warns of are photos of more than 89
    megapixels, as telephones make them; twice as many are an error to it, which is reported.

    Filters belong to the whole process: were each thread to save and restore them by itself, one
    might restore what another had set.
    """

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._inside = 0
        self._saved: warnings.catch_warnings[None] | None = None

    def __enter__(self) -> None:
        with self._guard:
            if not self._inside:
                self._saved = warnings.catch_warnings()
                self._saved.__enter__()
                warnings.simplefilter("ignore")
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._guard:
            self._inside -= 1
            if not self._inside and self._saved is not None:
                self._saved.__exit__(None, None, None)
                self._saved = None


QUIET = Quiet()
"""The one of this process."""


if TYPE_CHECKING:  # Pillow is imported by the first image
    from PIL import Image


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


if TYPE_CHECKING:  # Pillow is imported by the first image
    from PIL import Image


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
    """Raise on an opened image whose white level is unknown.

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
        ValueError: With the remedy.
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
    """Return an image that can be converted to RGB or grey without loss of content."""
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
