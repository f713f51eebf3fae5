"""A picture of many volumes at a glance: one slice of each, side by side."""

from __future__ import annotations

import io
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from torch import Tensor

from steepest.errors import InputError

_MARGIN = 4
_TITLE_HEIGHT = 12
_CONTRAST = 3.0
"""Standard deviations from the mean to black and to white."""


def contact_sheet(
    volumes: Tensor, titles: Sequence[str] | None = None, *, columns: int = 10, scale: int = 2,
    axis: int = 0,
) -> bytes:  # fmt: skip
    """Draw the central slice of each volume.

    Args:
        volumes: [N, D, H, W], or [N, 1, D, H, W].
        titles: A line under each [N]; none if not given.
        columns: Pictures in a row.
        scale: Pixels for each voxel.
        axis: The axis that is cut across: 0 for z, 1 for y, 2 for x.

    Returns:
        A PNG file, grey.

    Raises:
        InputError: If there is nothing to draw, or titles and volumes do not match.
    """
    if volumes.dim() == 5 and volumes.shape[1] == 1:
        volumes = volumes[:, 0]
    if volumes.dim() != 4 or not volumes.numel():
        raise InputError(f"volumes have shape {list(volumes.shape)}; give [N, D, H, W]")
    if titles is not None and len(titles) != len(volumes):
        raise InputError(f"{len(titles)} titles for {len(volumes)} volumes; give one each")
    if columns < 1 or scale < 1 or axis not in (0, 1, 2):
        raise InputError("give at least one column and pixel, and an axis of 0, 1 or 2")
    slices = volumes.select(axis + 1, volumes.shape[axis + 1] // 2)
    tiles = [_to_grey(part.detach().float().cpu().numpy(), scale) for part in slices]
    return _draw(tiles, list(titles or []), columns)


def _to_grey(values: npt.NDArray[np.float32], scale: int) -> npt.NDArray[np.uint8]:
    spread = float(values.std()) or 1.0
    level = (values - values.mean()) / (2.0 * _CONTRAST * spread) + 0.5
    grey: npt.NDArray[np.uint8] = (np.clip(level, 0.0, 1.0) * 255.0).astype(np.uint8)
    return grey.repeat(scale, axis=0).repeat(scale, axis=1)


def _draw(tiles: list[npt.NDArray[np.uint8]], titles: list[str], columns: int) -> bytes:
    from PIL import Image, ImageDraw

    height, width = tiles[0].shape
    step_y = height + _MARGIN + (_TITLE_HEIGHT if titles else 0)
    step_x = width + _MARGIN
    columns = min(columns, len(tiles))
    lines = -(-len(tiles) // columns)
    sheet = Image.new("L", (columns * step_x + _MARGIN, lines * step_y + _MARGIN), 255)
    pen = ImageDraw.Draw(sheet)
    for number, tile in enumerate(tiles):
        top = _MARGIN + number // columns * step_y
        left = _MARGIN + number % columns * step_x
        sheet.paste(Image.fromarray(tile), (left, top))
        if titles:
            pen.text((left, top + height), _fit(titles[number], width, pen), fill=0)
    content = io.BytesIO()
    sheet.save(content, "PNG", optimize=True)
    return content.getvalue()


def _fit(title: str, width: int, pen: object) -> str:
    """Shorten a title to the width of its picture."""
    measure = getattr(pen, "textlength")  # noqa: B009 - Pillow is imported late
    # The built-in font of some releases of Pillow knows Latin letters alone.
    shown = title.encode("latin-1", errors="replace").decode("latin-1")
    if measure(shown) <= width:
        return shown
    while shown and measure(f"{shown}..") > width:
        shown = shown[:-1]
    return f"{shown}.."
