"""From an image file, or an array or volume, to a picture in memory; hostile files included."""

from __future__ import annotations

import math
import struct
import zipfile
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from steepest.datasets.large_images import open_image
from steepest.datasets.pixels import explain_damage, to_eight_bits
from steepest.datasets.quiet import QUIET
from steepest.errors import DataError
from steepest.labelling.project.passing import explain_passing

if TYPE_CHECKING:  # Pillow is imported by the first picture
    from PIL import Image

_LARGE = 89_478_485
"""Pixels from which on a picture is worth some effort to save memory."""

_MOST_ARRAY_BYTES = 1 << 30
_MOST_ARRAY_PIXELS = 89_478_485
_PLAIN_MODES = frozenset({"L", "RGB", "RGBA"})
"""Kinds of pixels that may be made smaller before anything else is done with them."""

_MRC_HEADER_BYTES = 1024
_MRC_TYPES = {0: "i1", 1: "i2", 2: "f4", 6: "u2", 12: "f2"}
_DARKEST, _BRIGHTEST = 0.5, 99.5


def read_picture(path: Path, side: int) -> Image.Image:
    """Read a file as an RGB picture, upright, no side longer than asked for.

    Of a volume the central slice is shown, from its darkest to its brightest values.

    Raises:
        GoneError: If there is no such file.
        AccessError: If it cannot be read at this moment.
        DataError: If what is in it cannot be shown; the reason is one line.
    """
    try:
        with QUIET:
            suffix = path.suffix.lower()
            if suffix in (".npy", ".npz", ".mrc"):
                picture = _picture_of(_read_array(path, suffix))
            else:
                picture = _read_image(path, side)
            picture.thumbnail((side, side))
            return picture
    except DataError:
        raise
    except (Exception, RecursionError) as error:  # decoders raise almost anything
        passing = explain_passing(path.name, error)
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
        upright = to_eight_bits(ImageOps.exif_transpose(image))
        if upright.mode == "F":
            return _picture_of(np.asarray(upright))
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
        return np.asarray(_central(np.load(path, mmap_mode="r", allow_pickle=False)))
    with zipfile.ZipFile(path) as packed:
        parts = packed.infolist()
        if not parts or sum(part.file_size for part in parts) > _MOST_ARRAY_BYTES:
            raise DataError(f"{path.name}: empty, or more than {_MOST_ARRAY_BYTES} bytes unpacked")
        for part in parts:
            if part.filename.endswith(".npy"):
                with packed.open(part) as file:
                    _check_claim(path.name, file, part.file_size)
    with np.load(path, allow_pickle=False) as stored:
        for name in stored.files:
            # The sizes in a zip file's table may lie, but numpy reads no more than they say.
            array = stored[name]
            if array.ndim >= 2:
                return _central(array)
    raise DataError(f"{path.name}: no array of two or more dimensions in it")


def _check_claim(name: str, file: IO[bytes], size_bytes: int) -> None:
    """Refuse an array that says it is larger than its file: numpy makes room before it reads."""
    version = np.lib.format.read_magic(file)
    header = np.lib.format.read_array_header_1_0
    if version > (1, 0):
        header = np.lib.format.read_array_header_2_0
    shape, _, kind = header(file)
    if kind.itemsize * math.prod(shape) > size_bytes:
        raise DataError(f"{name}: truncated")


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
    if array.dtype.kind not in "fiub":
        raise DataError(f"an array of {array.dtype} is no picture")
    if array.ndim < 2 or min(array.shape) < 1:
        raise DataError(f"an array of shape {list(array.shape)} is no picture")
    if array.ndim == 3 and array.shape[2] in (3, 4) and array.dtype == np.uint8:
        _check_size("array", array.shape[:2])
        return array[:, :, :3]
    while array.ndim > 2:
        array = array[len(array) // 2]
    _check_size("array", array.shape)
    return array


def _check_size(name: str, shape: tuple[int, ...]) -> None:
    if math.prod(shape) > _MOST_ARRAY_PIXELS:
        raise DataError(
            f"{name}: {shape[1]}x{shape[0]} pixels are more than {_MOST_ARRAY_PIXELS}: "
            "save it smaller"
        )


def _picture_of(array: npt.NDArray[Any]) -> Image.Image:
    from PIL import Image

    if array.ndim == 3:
        return Image.fromarray(np.ascontiguousarray(array), "RGB")
    values = np.asarray(array, dtype=np.float64)
    if not np.isfinite(values).all():
        raise DataError("values that are NaN or infinite")
    low, high = np.percentile(values, (_DARKEST, _BRIGHTEST))
    if high <= low:
        low, high = float(values.min()), float(values.max())
    grey = np.clip((values - low) / max(high - low, 1e-12), 0.0, 1.0) * 255.0
    return Image.fromarray(grey.round().astype(np.uint8)).convert("RGB")
