"""Regions that people painted become label maps, and label maps become regions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from steepest.errors import InputError
from steepest.labelling.exchange.answers import Map
from steepest.labelling.exchange.vocabulary import Vocabulary
from steepest.labelling.label_studio.brush import decode_brush, encode_brush
from steepest.labelling.label_studio.config import BRUSH, IMAGE
from steepest.labelling.label_studio.polygon import fill_polygon
from steepest.tasks.segmentation import IGNORED

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
    """Return what most people say of each pixel [H, W]; 255 where two classes are equal.

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
