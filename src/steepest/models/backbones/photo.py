"""From an image of any size to the pixels that a net expects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import torch
from torch import Tensor

if TYPE_CHECKING:  # Pillow is imported by the first image
    from PIL import Image

Interpolation = Literal["bilinear", "bicubic"]


@dataclass(frozen=True)
class PhotoRecipe:
    """Squeeze an image into a square, then (x − mean) / std on the scale 0..255.

    The whole image stays in view: what is worth labelling may be at its edge.

    Attributes:
        side: The square's side in pixels.
        mean: Per channel.
        std: Per channel.
        interpolation: Between pixels.
    """

    side: int
    mean: tuple[float, float, float]
    std: tuple[float, float, float]
    interpolation: Interpolation = "bicubic"

    def __call__(self, image: Image.Image) -> Tensor:
        """Return pixels [3, side, side] of an RGB image."""
        from PIL.Image import Resampling

        kinds = {"bilinear": Resampling.BILINEAR, "bicubic": Resampling.BICUBIC}
        if image.size != (self.side, self.side):
            image = image.resize((self.side, self.side), kinds[self.interpolation])
        pixels = torch.from_numpy(np.array(image, dtype=np.float32)).permute(2, 0, 1)
        mean, std = (torch.tensor(values).reshape(3, 1, 1) for values in (self.mean, self.std))
        return (pixels - mean) / std


Fit = Literal["crop", "squash", "border"]
"""Shorter side to size and the middle cut out; both sides to size; or the longer side, padded."""


@dataclass(frozen=True)
class LibraryPhoto:
    """The usual preprocessing for testing a net: resize, centre crop, (x − mean) / std.

    Attributes:
        side: The square's side in pixels.
        resized: The length that sides are resized to before the middle is cut out.
        mean: Per channel, on the scale 0..1.
        std: Per channel, on the same scale.
        interpolation: Between pixels.
        fit: Which sides are resized, and how the rest is made up for.
    """

    side: int
    resized: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    interpolation: str = "bicubic"
    fit: Fit = "crop"

    def __call__(self, image: Image.Image) -> Tensor:
        """Return pixels [3, side, side] of an RGB image."""
        from PIL import Image

        image = image.resize(self._size(*image.size), _resampling(self.interpolation))
        if image.size != (self.side, self.side):
            # Negative places are beyond the edge.
            left, top = (round((length - self.side) / 2.0) for length in image.size)
            ground = Image.new("RGB", (self.side, self.side), self._ground)
            ground.paste(image, (-left, -top))
            image = ground
        pixels = torch.from_numpy(np.array(image, dtype=np.float32)).permute(2, 0, 1) / 255
        mean, std = (torch.tensor(values).reshape(3, 1, 1) for values in (self.mean, self.std))
        return (pixels - mean) / std

    @property
    def _ground(self) -> tuple[int, int, int]:
        red, green, blue = (round(255 * value) for value in self.mean)
        return (red, green, blue)

    def _size(self, width: int, height: int) -> tuple[int, int]:
        if self.fit == "squash":
            return self.resized, self.resized
        measured = max(width, height) if self.fit == "border" else min(width, height)
        return tuple(  # type: ignore[return-value]
            self.resized if length == measured else max(1, int(self.resized * length / measured))
            for length in (width, height)
        )


def _resampling(name: str) -> Image.Resampling:
    from PIL.Image import Resampling

    kinds = {
        "nearest": Resampling.NEAREST,
        "bilinear": Resampling.BILINEAR,
        "bicubic": Resampling.BICUBIC,
        "lanczos": Resampling.LANCZOS,
        "box": Resampling.BOX,
        "hamming": Resampling.HAMMING,
    }
    return kinds.get(name, Resampling.BICUBIC)
