"""Augmentation on the device, decided per sample and not per batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import torch
from torch import Tensor
from torch.nn import functional


@dataclass(frozen=True)
class CropFlip:
    """Pad with zeros, crop back at random, then maybe mirror left and right.

    Attributes:
        padding: Pixels of padding on each side; the image moves by as many at most.
        flip: Whether half of the images are mirrored.
    """

    padding: int = 0
    flip: bool = False

    def draw(self, count: int, generator: torch.Generator) -> Tensor:
        """Draw what happens to each of ``count`` samples.

        Returns:
            On the CPU [N, 3]: the crop's top row, its left column, and 1 to mirror.
        """
        steps = 2 * self.padding + 1
        corners = torch.randint(steps, (count, 2), generator=generator)
        mirrored = torch.randint(2, (count, 1), generator=generator) * int(self.flip)
        return torch.cat([corners, mirrored], dim=1)

    def apply(self, images: Tensor, draws: Tensor) -> Tensor:
        """Change a batch as drawn.

        Args:
            images: [B, C, H, W], of any type.
            draws: Rows of ``draw`` [B, 3], on the same device.

        Returns:
            Changed images [B, C, H, W].
        """
        if not self.padding and not self.flip:
            return images
        height, width = images.shape[2:]
        padded = functional.pad(images, [self.padding] * 4)
        columns = torch.arange(width, device=images.device)
        columns = torch.where(draws[:, 2:] == 1, columns.flip(0), columns) + draws[:, 1:2]
        rows = torch.arange(height, device=images.device) + draws[:, :1]
        batch = torch.arange(len(images), device=images.device)
        # The channels come last out of the indexing, which is the layout convolutions like.
        picked = padded[batch[:, None, None], :, rows[:, :, None], columns[:, None, :]]
        return picked.permute(0, 3, 1, 2)


AUGMENTATIONS: Mapping[str, CropFlip] = MappingProxyType(
    {
        "none": CropFlip(),
        "shift": CropFlip(padding=1),
        "crop-flip": CropFlip(padding=4, flip=True),
    }
)
"""Augmentations by name."""


def normalise(images: Tensor, mean: Sequence[float], std: Sequence[float]) -> Tensor:
    """Return (images / 255 - mean) / std as float [B, C, H, W].

    Args:
        images: uint8 [B, C, H, W].
        mean: Per channel, on the 0..1 scale [C].
        std: Per channel, on the 0..1 scale [C].
    """
    scale = torch.tensor([1 / (255 * s) for s in std], device=images.device)
    offset = torch.tensor([-m / s for m, s in zip(mean, std, strict=True)], device=images.device)
    return images.float() * scale[:, None, None] + offset[:, None, None]
