"""Polygons, in per cent of a picture's sides, become masks."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from steepest.errors import InputError


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
    mask = np.zeros((height, width), dtype=bool)
    centres = np.arange(width) + 0.5
    edges = list(zip(corners, corners[1:] + corners[:1], strict=True))
    for row in range(height):
        y = row + 0.5
        crossings = [
            x0 + (y - y0) * (x1 - x0) / (y1 - y0)
            for (x0, y0), (x1, y1) in edges
            if (y0 <= y) != (y1 <= y)
        ]
        for x in crossings:
            mask[row] ^= centres > x
    return mask
