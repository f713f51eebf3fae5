"""Label maps on disk, named by their content: a changed map is another file."""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from steepest.core.files import write_atomically
from steepest.core.seeds import SampleId
from steepest.data.image_decoding import IMAGE_FORMATS
from steepest.errors import DataError, InputError, first_line
from steepest.labelling.formats.base import Map
from steepest.pool.values import Label
from steepest.tasks.segmentation import IGNORED

FOLDER = "maps"
_LABEL = re.compile(r"map:([0-9a-f]{32})")


def map_label(pixels: Map) -> str:
    """Return what a pool notes of a map: its name, since a journal is no place for pixels."""
    digest = hashlib.blake2b(repr(pixels.shape).encode(), digest_size=16)
    digest.update(np.ascontiguousarray(pixels).tobytes())
    return f"map:{digest.hexdigest()}"


def check_map(pixels: Map, classes: int) -> Map:
    """Return a map whose pixels are all classes, or 255.

    Raises:
        InputError: Names the first number that is none.
    """
    wrong = pixels[(pixels >= classes) & (pixels != IGNORED)]
    if wrong.size:
        raise InputError(
            f"a pixel has class {int(wrong[0])}; use 0 to {classes - 1}, or {IGNORED} for unknown"
        )
    return pixels


class MapStore:
    """The label maps of a loop.

    Args:
        folder: The loop's folder; maps are PNG files in ``maps/`` below it.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder / FOLDER

    def file_name(self, label: Label) -> str:
        """Return where the map of a label is, relative to the loop's folder.

        Raises:
            DataError: If the label stands for no map.
        """
        found = _LABEL.fullmatch(label) if isinstance(label, str) else None
        if found is None:
            raise DataError(f"label {label!r} stands for no label map; label the sample again")
        return f"{FOLDER}/{found[1]}.png"

    def path(self, label: Label) -> Path:
        """Return the file of a label's map."""
        return self._folder.parent / self.file_name(label)

    def save(self, pixels: Map) -> Label:
        """Write a map, if it is not there, and return its label."""
        from PIL import Image

        label = map_label(pixels)
        path = self.path(label)
        if not path.exists():
            picture = io.BytesIO()
            Image.fromarray(pixels).save(picture, format="PNG")
            write_atomically(path, picture.getvalue())
        return label

    def load(self, label: Label) -> Map:
        """Read the map of a label [H, W].

        Raises:
            DataError: If the file is gone or changed.
        """
        path = self.path(label)
        pixels = read_map(path)
        if map_label(pixels) != label:
            raise DataError(f"{path}: was changed after it was written; restore it from a copy")
        return pixels

    def load_all(
        self, ids: Sequence[SampleId], labels: Sequence[Label]
    ) -> Iterator[tuple[SampleId, Map]]:
        """Yield each sample and its map."""
        for sample, label in zip(ids, labels, strict=True):
            yield sample, self.load(label)


def read_map(path: Path) -> Map:
    """Read an image whose pixels are class numbers [H, W].

    Raises:
        DataError: If it cannot be read, or is in colours.
    """
    from PIL import Image

    try:
        with Image.open(path, formats=IMAGE_FORMATS) as image:
            mode, pixels = image.mode, np.array(image)
    except Exception as error:  # decoders raise almost anything on damaged bytes
        raise DataError(f"{path}: cannot be read as a label map ({first_line(error)})") from error
    # A palette's colours are for the eye: its numbers are the classes.
    if mode not in ("L", "P"):
        raise DataError(f"{path}: {mode} pixels; a label map has one byte per pixel")
    return pixels.astype(np.uint8)
