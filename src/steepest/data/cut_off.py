"""Image files that lack their end, as copies do that were interrupted."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # Pillow is imported by the first image
    from PIL import Image

_LAST_BYTES = {"JPEG": b"\xff\xd9", "MPO": b"\xff\xd9", "GIF": b";"}
_TAIL = 4096
_STRIPS, _TILES = (273, 279), (324, 325)
"""The entries of a TIFF file that say where its pixels begin, and how many bytes they take."""


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
