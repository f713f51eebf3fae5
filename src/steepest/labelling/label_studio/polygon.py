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
