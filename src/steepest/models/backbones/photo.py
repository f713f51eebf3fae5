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
