"""Images as other libraries' data sets hand them out, as tensors of one form."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from steepest.core.seeds import derive, draws_put_back
from steepest.data.image_decoding import refuse_wide_pixels, to_eight_bits
from steepest.data.image_view import centre_box, see
from steepest.data.scene import IGNORED
from steepest.errors import DataError, SteepestError, in_one_line

if TYPE_CHECKING:  # Pillow is imported by the first image
    from PIL import Image

Items = Any
"""A map-style data set: a length, and items (image, label, ...) by row."""

Given = Any
"""An image or a label as such a data set hands it out."""

_GREY_MODES = ("1", "L", "LA", "La", "I", "I;16")
_MAP_MODES = ("1", "L", "P")


class ItemReader:
    """Reads the images of a map-style data set, uint8 or float32 [C, ...].

    Args:
        items: The data set; an item is (image, label).
        plain: The same samples without random changes, as they are scored and tested.
        draws: 1 if an augmented reading is one of ``items`` with its random changes.
        channels: 3 for colour and 1 for grey, for images of Pillow.
        size: The side of the square that images are resized to; None leaves them.
    """

    def __init__(
        self, items: Items, plain: Items, *, draws: int, channels: int, size: int | None
    ) -> None:
        self.draws = draws
        self._items = items
        self._plain = plain
        self._channels = channels
        self._size = size

    def __call__(self, row: int, draw: Tensor | None) -> Tensor:
        """Read one image; the draw [1] decides whatever the data set does at random."""
        image, _ = read_item(self._plain if draw is None else self._items, row, draw)
        return to_pixels(image, self._channels, self._size)


class ItemMapReader:
    """Reads the label maps of a map-style data set, uint8 [H, W], just as their images are.

    Args:
        items: The data set; an item is (image, label map).
        plain: The same samples without random changes.
        draws: As for the images.
        classes: The number of classes.
    """

    def __init__(self, items: Items, plain: Items, *, draws: int, classes: int) -> None:
        self.draws = draws
        self._items = items
        self._plain = plain
        self._classes = classes

    def __call__(self, row: int, draw: Tensor | None) -> Tensor:
        """Read one label map; the draw [1] decides whatever the data set does at random."""
        _, label = read_item(self._plain if draw is None else self._items, row, draw)
        try:
            found = to_map(label)
        except DataError as error:
            raise DataError(f"sample {row}: {error}") from error
        wrong = found[(found >= self._classes) & (found != IGNORED)]
        if len(wrong):
            raise DataError(
                f"sample {row}: its label map says class {int(wrong[0])}, but the classes are 0 to "
                f"{self._classes - 1}, and {IGNORED} where none is known"
            )
        return found


def read_item(items: Items, row: int, draw: Tensor | None = None) -> tuple[Given, Given]:
    """Return the image and the label of an item.

    Args:
        items: The data set.
        row: Which one.
        draw: Decides whatever the data set does at random [1].

    Raises:
        DataError: If the item cannot be read, or is no pair.
    """
    try:
        with _settled(row, draw):
            item = items[row]
    except SteepestError:
        raise
    except Exception as error:  # whatever other people's data sets raise
        raise DataError(f"sample {row} cannot be read ({in_one_line(error)})") from error
    if not isinstance(item, (tuple, list)) or len(item) < 2:
        raise DataError(f"sample {row} is of type {type(item).__name__}, not (image, label)")
    return item[0], item[1]


def count_channels(image: Given) -> int:
    """Return the channels that images like this one are read with."""
    if _is_pillow(image):
        return 1 if image.mode in _GREY_MODES else 3
    return int(to_pixels(image, 0, None).shape[0])


def holds_wide_numbers(image: Given) -> bool:
    """Say whether an array or tensor holds whole numbers that are not bytes."""
    if isinstance(image, np.ndarray):
        return image.dtype.kind in "iu" and image.dtype != np.uint8
    if not isinstance(image, Tensor) or image.dtype in (torch.uint8, torch.bool):
        return False
    return not image.is_floating_point()


def to_pixels(image: Given, channels: int, size: int | None) -> Tensor:
    """Return an image as uint8 or float32 [C, ...].

    Args:
        image: Of Pillow, a tensor [C, ...] or [H, W], or an array [H, W] or [H, W, C].
        channels: 3 for colour and 1 for grey, for images of Pillow.
        size: The side of the square that it is resized to; None leaves it.

    Raises:
        DataError: If it is something else.
    """
    if _is_pillow(image):
        return _from_pillow(image, channels, size)
    if isinstance(image, np.ndarray):
        if image.ndim == 3 and image.shape[2] > 4:
            raise DataError(f"an array of shape {list(image.shape)} is no image [H, W, C]")
        image = torch.from_numpy(np.ascontiguousarray(image))
        image = image.permute(2, 0, 1) if image.ndim == 3 else image
    if not isinstance(image, Tensor) or image.ndim < 2:
        raise DataError(
            f"an item's image is of type {type(image).__name__}, not an image or tensor"
        )
    pixels = image[None] if image.ndim == 2 else image
    pixels = pixels if pixels.dtype == torch.uint8 else pixels.to(torch.float32)
    return pixels.contiguous() if size is None else _resize(pixels, size)


def _is_pillow(image: Given) -> bool:
    from PIL import Image

    return isinstance(image, Image.Image)


def _from_pillow(image: Image.Image, channels: int, size: int | None) -> Tensor:
    from PIL import ImageOps

    try:
        refuse_wide_pixels(image)
    except ValueError as error:
        raise DataError(
            f"an image has {error}: hand it out as a tensor of floats, such as 0..1"
        ) from error
    image = to_eight_bits(ImageOps.exif_transpose(image))
    if size is not None:
        return see(image, centre_box(image.width, image.height, size, size), size)[:channels]
    pixels = np.array(image.convert("L" if channels == 1 else "RGB"))
    return torch.from_numpy(pixels.reshape(*pixels.shape[:2], -1)).permute(2, 0, 1).contiguous()


def _resize(pixels: Tensor, size: int) -> Tensor:
    """Resize the shorter side and cut out the centre, as for images of Pillow."""
    if pixels.ndim != 3:
        raise DataError(f"only images can be resized, not samples of shape {list(pixels.shape)}")
    height, width = pixels.shape[1:]
    short = min(height, width)
    sides = [size * height // short, size * width // short]
    resized = functional.interpolate(
        pixels[None].float(), size=sides, mode="bilinear", antialias=True
    )[0]
    top, left = (round((side - size) / 2) for side in sides)
    square = resized[:, top : top + size, left : left + size]
    if pixels.dtype == torch.uint8:
        square = square.round().clamp(0, 255).to(torch.uint8)
    return square.contiguous()


def to_map(label: Given) -> Tensor:
    """Return a label map as uint8 [H, W], or [D, H, W] of a volume.

    Raises:
        DataError: If it is something else.
    """
    if _is_pillow(label):
        if label.mode not in _MAP_MODES:
            raise DataError(f"a label map has {label.mode} pixels, not one byte for each label")
        label = np.array(label, dtype=np.uint8)
    values = torch.as_tensor(label)
    values = values[0] if values.ndim == 3 and values.shape[0] == 1 else values
    if values.ndim not in (2, 3) or values.is_floating_point():
        raise DataError(f"a label map is {values.dtype} {list(values.shape)}, not bytes [H, W]")
    # Wide bytes, as 16-bit files have them, cannot be compared by torch as they are.
    values = values if values.dtype == torch.uint8 else values.long()
    if values.dtype != torch.uint8 and (int(values.min()) < 0 or int(values.max()) > 255):
        raise DataError("a label map holds numbers outside 0..255; use 255 for pixels to ignore")
    return values.to(torch.uint8).contiguous()


@contextmanager
def _settled(row: int, draw: Tensor | None) -> Iterator[None]:
    """Let whatever is drawn from the global generators depend on the row and the draw alone.

    Other people's data sets draw from them; afterwards they are as before.
    """
    turn = -1 if draw is None else int(draw[0].item() * 2**53)
    seed = derive(0, "item", row, turn)
    with draws_put_back():
        torch.manual_seed(seed)
        random.seed(seed)
        np.random.seed(seed % 2**32)  # noqa: NPY002 - it is not ours
        yield
