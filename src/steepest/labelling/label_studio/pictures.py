"""Samples as pictures that a browser can show."""

from __future__ import annotations

import base64
import hashlib
import io
import urllib.parse
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from steepest.core.seeds import SampleId
from steepest.data.image_decoding import (
    ORIENTATION,
    QUIET,
    explain_damage,
    open_image,
    to_eight_bits,
)
from steepest.errors import DataError, InputError
from steepest.labelling.exchange.array_identity import ArrayIdentity, identify_array

_SHOWN_AS_THEY_ARE = {"PNG": "png", "JPEG": "jpg", "GIF": "gif", "WEBP": "webp"}


@dataclass(frozen=True)
class Picture:
    """A file for a browser.

    Attributes:
        content: Its bytes.
        kind: ``"png"``, ``"jpg"``, ``"gif"`` or ``"webp"``.
        size: (height, width).
    """

    content: bytes
    kind: str
    size: tuple[int, int]

    @property
    def name(self) -> str:
        """A name that tells the content: the same picture is the same file."""
        digest = hashlib.blake2b(self.content, digest_size=12).hexdigest()
        return f"steepest-{digest}.{self.kind}"

    @property
    def media_type(self) -> str:
        """The media type of the picture."""
        return f"image/{'jpeg' if self.kind == 'jpg' else self.kind}"

    @property
    def data_url(self) -> str:
        """The picture itself, written as an address."""
        return f"data:{self.media_type};base64,{base64.b64encode(self.content).decode('ascii')}"


class Gallery:
    """The pictures of a pool.

    Args:
        source: A folder of images whose ids are relative paths, or a ``.npy`` array whose ids
            are row numbers.

    Raises:
        DataError: If it is not there.
    """

    def __init__(self, source: Path) -> None:
        self._source = source
        self._rows: npt.NDArray[Any] | None = None
        if source.suffix == ".npy":
            try:
                self._rows = np.load(source, mmap_mode="r", allow_pickle=False)
            except (OSError, ValueError, EOFError) as error:
                raise DataError(f"{source}: cannot be read; say where it is by --pool") from error
        elif not source.is_dir():
            raise DataError(f"{source}: no such folder; say where the images are by --pool")

    def identity(self) -> ArrayIdentity | None:
        """Return the identity of the array; None for a folder, whose ids are names."""
        return None if self._rows is None else identify_array(self._rows)

    def picture(self, sample: SampleId) -> Picture:
        """Return a sample's picture: its file as it is, or a PNG where browsers need one.

        Raises:
            DataError: If it cannot be read or shown.
        """
        if self._rows is not None:
            return _draw(self._rows, sample)
        return _from_file(self.path(sample))

    def path(self, sample: SampleId) -> Path:
        """Return a sample's file.

        Raises:
            DataError: If it is outside the folder.
            InputError: If samples are no files.
        """
        if self._rows is not None:
            raise InputError("samples of an array are no files; choose --images upload")
        path = self._source / str(sample)
        if not path.resolve().is_relative_to(self._source.resolve()):
            raise DataError(f"{path}: is outside the pool's folder")
        return path


def local_files_url(path: Path, root: Path) -> str:
    """Return the address by which Label Studio serves a file on its machine.

    Raises:
        InputError: If the file is not below the folder that Label Studio may serve.
    """
    try:
        inside = path.resolve().relative_to(root.resolve()).as_posix()
    except ValueError:
        raise InputError(f"{path} is not below {root}; give Label Studio's document root") from None
    return f"/data/local-files/?d={urllib.parse.quote(inside)}"


def _from_file(path: Path) -> Picture:
    from PIL import ImageOps

    try:
        content = path.read_bytes()
        with QUIET, open_image(path) as opened:
            kind = _SHOWN_AS_THEY_ARE.get(opened.format or "")
            upright = opened.getexif().get(ORIENTATION, 1) == 1
            if kind is not None and upright and opened.mode not in ("I;16", "I", "F"):
                return Picture(content, kind, (opened.height, opened.width))
            # Turned as the model sees it, or masks would be painted across.
            image = to_eight_bits(ImageOps.exif_transpose(opened)).convert("RGB")
    except Exception as error:  # decoders raise almost anything on damaged bytes
        raise DataError(f"{path}: cannot be shown ({explain_damage(error)})") from error
    return _as_png(image)


def _draw(rows: npt.NDArray[Any], sample: SampleId) -> Picture:
    """Draw a row of an array, from its least value in black to its greatest in white."""
    from PIL import Image

    values = np.asarray(rows[int(sample)], dtype=np.float64)
    if values.ndim == 2:
        values = values[None]
    if values.ndim != 3 or len(values) not in (1, 3):
        raise DataError(f"sample {sample} has the shape {list(values.shape)}, which is no picture")
    low, high = float(values.min()), float(values.max())
    scaled = (255 * (values - low) / (high - low if high > low else 1)).round().astype(np.uint8)
    return _as_png(Image.fromarray(scaled[0] if len(scaled) == 1 else scaled.transpose(1, 2, 0)))


def _as_png(image: Any) -> Picture:  # noqa: ANN401 - Pillow is imported late
    content = io.BytesIO()
    image.save(content, format="PNG")
    return Picture(content.getvalue(), "png", (image.height, image.width))
