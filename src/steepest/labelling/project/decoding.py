"""From an image file, or an array or volume, to a picture in memory; hostile files included."""

from __future__ import annotations

import math
import os
import struct
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from steepest.data.image_decoding import (
    LONGEST_SIDE,
    QUIET,
    explain_damage,
    open_image,
    to_eight_bits,
)
from steepest.errors import DataError
from steepest.labelling.project.source import explain_transient

if TYPE_CHECKING:  # Pillow is imported by the first picture
    from PIL import Image

_LARGE = 89_478_485
"""Pixels from which on a picture is worth some effort to save memory."""

_MOST_ARRAY_BYTES = 1 << 30
_MOST_ARRAY_PIXELS = 89_478_485
_PLAIN_MODES = frozenset({"L", "LA", "RGB", "RGBA", "CMYK", "YCbCr", "I", "F"})
"""Kinds of pixels that may be made smaller before anything else is done with them."""

_FEW_BYTES = frozenset({"1", "P", "I;16", "I;16B"})
"""Kinds of pixels that cannot be made smaller as they are, and need not be."""

_MRC_HEADER_BYTES = 1024
_MRC_TYPES = {0: "i1", 1: "i2", 2: "f4", 6: "u2", 12: "f2"}
_DARKEST, _BRIGHTEST = 0.5, 99.5


def read_picture(path: Path, side: int) -> Image.Image:
    """Read a file as an RGB picture, upright, no side longer than asked for.

    Of a volume the central slice is shown, from its darkest to its brightest values.

    Raises:
        GoneError: If the file is missing.
        AccessError: If it cannot be read at this moment.
        DataError: If its content cannot be shown; the reason is one line.
    """
    try:
        with QUIET:
            suffix = path.suffix.lower()
            if suffix in (".npy", ".npz", ".mrc"):
                picture = _picture_of(_read_array(path, suffix), side)
            else:
                picture = _read_image(path, side)
            picture.thumbnail((side, side))
            return picture
    except DataError:
        raise
    except (Exception, RecursionError) as error:  # decoders raise almost anything
        passing = explain_transient(path.name, error)
        if passing is not None:
            raise passing from error
        raise DataError(f"{path.name}: cannot be shown ({explain_damage(error)})") from error


def read_square(path: Path, side: int) -> npt.NDArray[np.uint8]:
    """Read a file squeezed into a square, as models see it.

    Returns:
        Pixels [3, side, side].

    Raises:
        DataError: If the file cannot be read.
    """
    from PIL import Image

    # Reduced first by whole steps: squeezing a large picture at once costs more.
    picture = read_picture(path, 3 * side).resize((side, side), Image.Resampling.BILINEAR)
    return np.ascontiguousarray(np.asarray(picture, dtype=np.uint8).transpose(2, 0, 1))


def _read_image(path: Path, side: int) -> Image.Image:
    from PIL import Image, ImageOps

    with open_image(path) as image:
        _shrink(image, side)
        if image.mode in _PLAIN_MODES:
            # At once: every further step would hold a copy of the whole.
            image.thumbnail((side, side))
        elif image.width * image.height > _LARGE and image.mode not in _FEW_BYTES:
            # Conversion takes some twenty bytes for each pixel, and these are rare.
            image.thumbnail((side, side), Image.Resampling.NEAREST)
        upright = to_eight_bits(ImageOps.exif_transpose(image))
        if upright.mode == "F":
            return _picture_of(np.asarray(upright), side)
        if "A" in upright.getbands():
            # What is transparent is white on a page; its hidden colours were never meant.
            white = Image.new("RGBA", upright.size, "white")
            upright = Image.alpha_composite(white, upright.convert("RGBA"))
        return upright.convert("RGB")


def _shrink(image: Image.Image, side: int) -> None:
    """Have a JPEG file decoded at a half, a quarter or an eighth, at a fraction of the cost."""
    width, height = image.size
    wanted = (side, side)
    if width * height > _LARGE:
        # Panoramas are short enough on one side that a square would keep them whole.
        longest = max(width, height)
        wanted = (max(1, width * side // longest), max(1, height * side // longest))
    image.draft(None, wanted)


def _read_array(path: Path, suffix: str) -> npt.NDArray[Any]:
    if suffix == ".mrc":
        return _read_mrc(path)
    if suffix == ".npy":
        with path.open("rb") as file:
            return _read_npy(path.name, file, os.fstat(file.fileno()).st_size)
    with zipfile.ZipFile(path) as packed:
        # The sizes in a zip file's table may lie, but no more is read than they say.
        if sum(part.file_size for part in packed.infolist()) > _MOST_ARRAY_BYTES:
            raise DataError(f"{path.name}: more than {_MOST_ARRAY_BYTES} bytes unpacked")
        for part in packed.infolist():
            if part.filename.endswith(".npy"):
                with packed.open(part) as file:
                    header = _Header.read(path.name, file, part.file_size)
                if len(header.shape) >= 2:
                    with packed.open(part) as file:
                        return _read_npy(path.name, file, part.file_size)
    raise DataError(f"{path.name}: no array of two or more dimensions in it")


@dataclass(frozen=True)
class _Header:
    """The header of a stored array, checked against the length of its file."""

    shape: tuple[int, ...]
    by_columns: bool
    kind: np.dtype[Any]

    @classmethod
    def read(cls, name: str, file: IO[bytes], size_bytes: int) -> _Header:
        """Read it, up to where the values begin."""
        version = np.lib.format.read_magic(file)
        header = np.lib.format.read_array_header_1_0
        if version > (1, 0):
            header = np.lib.format.read_array_header_2_0
        shape, by_columns, kind = header(file)
        if kind.itemsize * math.prod(shape) > size_bytes:
            raise DataError(f"{name}: truncated")
        return cls(shape, by_columns, kind)


def _read_npy(name: str, file: IO[bytes], size_bytes: int) -> npt.NDArray[Any]:
    """Read a picture out of an array: no more than its middle, where that is in one piece.

    Not mapped into memory: where a file is cut short meanwhile, the system ends whoever looks.
    """
    header = _Header.read(name, file, size_bytes)
    shape = header.shape
    if header.kind.kind not in "fiub":
        raise DataError(f"{name}: an array of {header.kind} is no picture")
    if len(shape) < 2 or min(shape) < 1:
        raise DataError(f"{name}: an array of shape {list(shape)} is no picture")
    leading = 0 if _is_coloured(shape, header.kind) else len(shape) - 2
    _check_size(name, shape[leading : leading + 2])
    begin, taken = 0, shape
    if not header.by_columns:
        taken = shape[leading:]
        middle = [length // 2 for length in shape[:leading]]
        for index, length in zip(middle, shape[:leading], strict=True):
            begin = begin * length + index
    length_bytes = math.prod(taken) * header.kind.itemsize
    if length_bytes > _MOST_ARRAY_BYTES:
        raise DataError(f"{name}: more than {_MOST_ARRAY_BYTES} bytes by columns: save it by rows")
    file.seek(begin * length_bytes, os.SEEK_CUR)
    data = file.read(length_bytes)
    if len(data) < length_bytes:
        raise DataError(f"{name}: truncated")
    order: Literal["F", "C"] = "F" if header.by_columns else "C"
    return _central(np.frombuffer(data, header.kind).reshape(taken, order=order))


def _read_mrc(path: Path) -> npt.NDArray[Any]:
    """Read the central section of a map, without the rest."""
    with path.open("rb") as file:
        header = file.read(_MRC_HEADER_BYTES)
        if len(header) < _MRC_HEADER_BYTES:
            raise DataError(f"{path.name}: truncated")
        order = ">" if header[212:214] == b"\x11\x11" else "<"
        columns, rows, sections, mode = struct.unpack(f"{order}4i", header[:16])
        extended = struct.unpack(f"{order}i", header[92:96])[0]
        if mode not in _MRC_TYPES or min(columns, rows, sections) < 1 or extended < 0:
            raise DataError(f"{path.name}: not an MRC file that can be shown")
        kind = np.dtype(order + _MRC_TYPES[mode])
        _check_size(path.name, (rows, columns))
        slice_bytes = rows * columns * kind.itemsize
        file.seek(_MRC_HEADER_BYTES + extended + sections // 2 * slice_bytes)
        data = file.read(slice_bytes)
    if len(data) < slice_bytes:
        raise DataError(f"{path.name}: truncated")
    return np.frombuffer(data, kind).reshape(rows, columns)


def _central(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return an array as a picture [H, W] or [H, W, 3]: the middle of leading dimensions."""
    if _is_coloured(array.shape, array.dtype):
        return array[:, :, :3]
    while array.ndim > 2:
        array = array[len(array) // 2]
    return array


def _is_coloured(shape: tuple[int, ...], kind: np.dtype[Any]) -> bool:
    return len(shape) == 3 and shape[2] in (3, 4) and kind == np.uint8


def _check_size(name: str, shape: tuple[int, ...]) -> None:
    if max(shape) > LONGEST_SIDE or math.prod(shape) > _MOST_ARRAY_PIXELS:
        raise DataError(
            f"{name}: {shape[1]}x{shape[0]} pixels are more than {_MOST_ARRAY_PIXELS}, or a side "
            f"is longer than {LONGEST_SIDE}: save it smaller"
        )


def _picture_of(array: npt.NDArray[Any], side: int) -> Image.Image:
    """Return a picture of an array: grey from its darkest to its brightest values, or in colour."""
    from PIL import Image

    if array.ndim == 3:
        return Image.fromarray(np.ascontiguousarray(array), "RGB")
    values = _shrunk(array, 2 * side)
    if not np.isfinite(values).all():
        raise DataError("values that are NaN or infinite")
    low, high = np.percentile(values, (_DARKEST, _BRIGHTEST))
    if high <= low:
        low, high = float(values.min()), float(values.max())
    grey = np.clip((values - low) / max(high - low, 1e-12), 0.0, 1.0) * 255.0
    return Image.fromarray(grey.round().astype(np.uint8)).convert("RGB")


def _shrunk(array: npt.NDArray[Any], side: int) -> npt.NDArray[np.float64]:
    """Return means over squares of an array [H, W] that is longer than needed: as few as will do.

    Several copies of the whole in double precision would take gigabytes.
    """
    step = max(array.shape) // side
    rows, columns = (length - length % step if step else 0 for length in array.shape)
    if step < 2 or not rows or not columns:
        return np.asarray(array, dtype=np.float64)
    squares = array[:rows, :columns].reshape(rows // step, step, columns // step, step)
    means: npt.NDArray[np.float64] = squares.mean(axis=(1, 3), dtype=np.float64)
    return means
