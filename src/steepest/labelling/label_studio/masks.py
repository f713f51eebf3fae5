"""Label maps of Label Studio: brush strokes and polygons become maps, and maps become regions."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from steepest.errors import InputError
from steepest.labelling.exchange.vocabulary import Vocabulary
from steepest.labelling.formats.base import Map
from steepest.tasks.segmentation import IGNORED

IMAGE, BRUSH, POLYGON = "image", "brush", "polygon"
"""The names of the picture and of the controls for masks, which results refer to."""

_MOST_PIXELS = 1 << 28
_LONGEST_SIDE = 1 << 16
"""Larger pictures than this are a mistake, or an attack on memory; browsers do not show them."""


def draw_map(result: Sequence[Mapping[str, Any]], words: Vocabulary, background: int | None) -> Map:
    """Paint all regions of an annotation, later ones over earlier ones.

    Args:
        result: Regions as Label Studio has them.
        words: The classes.
        background: The class of pixels in no region; None makes them 255, unknown.

    Returns:
        A label map [H, W] of the picture's own size.

    Raises:
        InputError: If a region cannot be read.
    """
    pixels: Map | None = None
    for region in result:
        kind = str(region.get("type", ""))
        if kind not in ("brushlabels", "polygonlabels"):
            if "labels" in kind:
                raise InputError(f"{kind} are no masks; use the brush or polygons")
            continue
        size = _size(region)
        if pixels is None:
            fill = IGNORED if background is None else background
            pixels = np.full(size, fill, dtype=np.uint8)
        if pixels.shape != size:
            raise InputError("regions are of pictures of different sizes")
        value = region["value"]
        names = value.get(kind, [])
        if len(names) != 1:
            raise InputError(f"a region has {len(names)} classes; give it one")
        pixels[_mask(kind, value, *size)] = words.number(names[0])
    if pixels is None:
        raise InputError("there is no region")
    return pixels


def vote_map(draws: Sequence[Callable[[], Map]]) -> Map:
    """Return the majority's class of each pixel [H, W]; 255 where two classes are equal.

    Raises:
        InputError: If the maps are not of one size.
    """
    maps = [draw() for draw in draws]
    if len({pixels.shape for pixels in maps}) > 1:
        raise InputError("annotators painted pictures of different sizes")
    stack = np.stack(maps)
    best = np.full(stack.shape[1:], IGNORED, dtype=np.uint8)
    most = np.zeros(stack.shape[1:], dtype=np.int64)
    for c in np.unique(stack).tolist():
        votes = (stack == c).sum(0)
        best = np.where(votes > most, c, np.where(votes == most, IGNORED, best)).astype(np.uint8)
        most = np.maximum(most, votes)
    return best


def make_regions(pixels: Map, words: Vocabulary, size: tuple[int, int]) -> list[dict[str, Any]]:
    """Return a label map as one brush region per class, for a picture of (height, width)."""
    height, width = size
    rows = np.arange(height) * pixels.shape[0] // height
    columns = np.arange(width) * pixels.shape[1] // width
    shown = pixels[rows][:, columns]
    return [
        {
            "type": "brushlabels",
            "from_name": BRUSH,
            "to_name": IMAGE,
            "original_width": width,
            "original_height": height,
            "image_rotation": 0,
            "value": {
                "format": "rle",
                "rle": encode_brush(shown == c),
                "brushlabels": [words.names[c]],
            },
        }
        for c in np.unique(shown).tolist()
        if c < len(words.names)
    ]


def _mask(kind: str, value: Mapping[str, Any], height: int, width: int) -> npt.NDArray[np.bool_]:
    if kind == "polygonlabels":
        return fill_polygon(value["points"], height, width)
    if value.get("format", "rle") != "rle":
        raise InputError(f"a brush mask has the format {value['format']!r}; rle is read")
    return decode_brush(value["rle"], height, width)


def _size(region: Mapping[str, Any]) -> tuple[int, int]:
    height, width = region.get("original_height"), region.get("original_width")
    for side in (height, width):
        if not isinstance(side, int) or isinstance(side, bool) or side < 1:
            raise InputError("a region does not say how large its picture is")
    size = int(height or 0), int(width or 0)
    if size[0] * size[1] > _MOST_PIXELS or max(size) > _LONGEST_SIDE:
        raise InputError(f"a region's picture of {size[1]}x{size[0]} pixels is too large")
    return size


Mask = npt.NDArray[np.bool_]

_WORD_BITS = 8
_COUNTER_BITS = (3, 4, 8, 16)
_CHANNELS = 4


def decode_brush(stream: Sequence[int], height: int, width: int) -> Mask:
    """Return the pixels that were painted [H, W].

    The stream holds the bytes of an RGBA picture as run lengths: their number (32 bits), the bits
    per word less one (5), four sizes of counters less one (4 each), and then blocks. A block is one
    bit that says whether a single word is repeated, two bits that choose the counter's size, the
    counter less one, and the word, or as many words as were counted.

    Raises:
        InputError: If the stream is damaged, or of a picture of another size.
    """
    try:
        bits = _Bits(bytes(stream))
    except (TypeError, ValueError):
        raise InputError("a brush mask is no list of bytes") from None
    total, word = bits.take(32), bits.take(5) + 1
    if total != height * width * _CHANNELS or word != _WORD_BITS:
        raise InputError(f"a brush mask holds {total} values, not those of {width}x{height} pixels")
    sizes = [bits.take(4) + 1 for _ in range(4)]
    values = np.zeros(total, dtype=np.uint8)
    done = 0
    while done < total:
        repeated = bits.take(1)
        count = bits.take(sizes[bits.take(2)]) + 1
        if done + count > total:
            raise InputError("a brush mask holds more values than it says")
        if repeated:
            values[done : done + count] = bits.take(_WORD_BITS)
        else:
            values[done : done + count] = bits.take_bytes(count)
        done += count
    # People paint with a soft edge: half and more of the colour counts as painted.
    mask: Mask = values.reshape(height, width, _CHANNELS)[..., 3] >= 128
    return mask


def encode_brush(mask: Mask) -> list[int]:
    """Return the stream of a mask [H, W], for Label Studio to show."""
    flat = np.ascontiguousarray(mask).reshape(-1)
    edges = np.flatnonzero(np.diff(flat)) + 1
    starts = np.concatenate([[0], edges]).astype(np.int64)
    lengths = np.diff(np.concatenate([starts, [flat.size]])) * _CHANNELS
    parts = [f"{flat.size * _CHANNELS:032b}", f"{_WORD_BITS - 1:05b}"]
    parts += [f"{size - 1:04b}" for size in _COUNTER_BITS]
    for start, length in zip(starts.tolist(), lengths.tolist(), strict=True):
        word = "11111111" if flat[start] else "00000000"
        left = length
        while left:
            index, size, count = _counter(left)
            parts.append(f"1{index:02b}{count - 1:0{size}b}{word}")
            left -= count
    text = "".join(parts)
    text += "0" * (-len(text) % 8)
    return [int(text[i : i + 8], 2) for i in range(0, len(text), 8)]


def _counter(length: int) -> tuple[int, int, int]:
    """Return which counter to use for a run, its bits, and how much of the run it counts."""
    for index, size in enumerate(_COUNTER_BITS):
        if length <= 1 << size:
            return index, size, length
    return len(_COUNTER_BITS) - 1, _COUNTER_BITS[-1], 1 << _COUNTER_BITS[-1]


class _Bits:
    """Reads numbers of any number of bits, the highest first."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._bits = np.unpackbits(np.frombuffer(data, dtype=np.uint8))
        self._place = 0

    def take(self, count: int) -> int:
        end = self._place + count
        if end > len(self._bits):
            raise InputError("a brush mask ends too early")
        first, last = self._place // 8, (end + 7) // 8
        chunk = int.from_bytes(self._data[first:last], "big")
        self._place = end
        return (chunk >> (8 * last - end)) & ((1 << count) - 1)

    def take_bytes(self, count: int) -> npt.NDArray[np.uint8]:
        end = self._place + _WORD_BITS * count
        if end > len(self._bits):
            raise InputError("a brush mask ends too early")
        taken = np.packbits(self._bits[self._place : end])
        self._place = end
        return taken


def fill_polygon(
    points: Sequence[Sequence[float]], height: int, width: int
) -> npt.NDArray[np.bool_]:
    """Return the pixels whose centres are inside [H, W]; crossings count even-odd.

    Args:
        points: Corners (x, y) [N, 2] in per cent of width and height.
        height: Of the picture, in pixels.
        width: Of the picture, in pixels.

    Raises:
        InputError: If there are not at least three corners of two numbers.
    """
    try:
        corners = [(float(x) * width / 100, float(y) * height / 100) for x, y in points]
    except (TypeError, ValueError):
        raise InputError("a polygon has corners that are not pairs of numbers") from None
    if len(corners) < 3 or not all(map(math.isfinite, np.ravel(corners))):
        raise InputError("a polygon needs three corners or more, each with two numbers")
    # What lies right of an edge is turned over, in all rows that it crosses at once: people's
    # outlines have thousands of corners.
    turns = np.zeros((height, width + 1), dtype=bool)
    centres = np.arange(width) + 0.5
    for (x0, y0), (x1, y1) in zip(corners, corners[1:] + corners[:1], strict=True):
        first, last = (min(max(int(y), 0), height) for y in (min(y0, y1) - 1, max(y0, y1) + 1))
        rows = np.arange(first, last)
        y = rows + 0.5
        crossed = (y0 <= y) != (y1 <= y)
        rows, y = rows[crossed], y[crossed]
        if len(rows):
            x = x0 + (y - y0) * (x1 - x0) / (y1 - y0)
            turns[rows, np.searchsorted(centres, x, side="right")] ^= True
    return np.logical_xor.accumulate(turns[:, :width], axis=1)
