"""Augmentation on the device, decided per sample and not per batch."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import torch
from torch import Tensor
from torch.nn import functional

from steepest.tasks.segmentation import IGNORED


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
        """Draw the augmentation of each of ``count`` samples.

        Returns:
            On the CPU [N, 3]: the crop's top row, its left column, and 1 to mirror.
        """
        steps = 2 * self.padding + 1
        corners = torch.randint(steps, (count, 2), generator=generator)
        mirrored = torch.randint(2, (count, 1), generator=generator) * int(self.flip)
        return torch.cat([corners, mirrored], dim=1)

    def apply(self, images: Tensor, draws: Tensor, fill: int = 0) -> Tensor:
        """Change a batch as drawn.

        Args:
            images: [B, C, H, W], of any type.
            draws: Rows of ``draw`` [B, 3], on the same device.
            fill: The value of the padding.

        Returns:
            Changed images [B, C, H, W].
        """
        if not self.padding and not self.flip:
            return images
        batch, channels, rows, columns = (
            torch.arange(n, device=images.device) for n in images.shape
        )
        top, left, mirrored = (draws[:, i : i + 1] for i in range(3))
        rows = rows + top
        columns = torch.where(mirrored == 1, columns.flip(0), columns) + left
        padded = functional.pad(images, [self.padding] * 4, value=fill)
        return padded[
            batch[:, None, None, None],
            channels[None, :, None, None],
            rows[:, None, :, None],
            columns[:, None, None, :],
        ]

    def apply_to_labels(self, labels: Tensor, draws: Tensor) -> Tensor:
        """Change label maps [B, H, W] as their images were; other labels are unchanged."""
        if labels.ndim < 3:
            return labels
        return self.apply(labels[:, None], draws, fill=IGNORED)[:, 0]


AUGMENTATIONS: Mapping[str, CropFlip] = MappingProxyType(
    {
        "none": CropFlip(),
        "shift": CropFlip(padding=1),
        "flip": CropFlip(flip=True),
        "crop-flip": CropFlip(padding=4, flip=True),
    }
)
"""Augmentations on the device, by name."""

OWN = "own"
"""The augmentation that a data set applies itself while it is read from disk."""


def normalise(images: Tensor, mean: Sequence[float], std: Sequence[float]) -> Tensor:
    """Return (images - mean) / std as float [B, C, ...], bytes first divided by 255.

    Args:
        images: uint8 or float32 [B, C, ...].
        mean: Per channel, of bytes on the 0..1 scale [C].
        std: Per channel, on the same scale [C].
    """
    most = 255.0 if images.dtype == torch.uint8 else 1.0
    scale, offset = _scale_and_offset(tuple(mean), tuple(std), most, images.device)
    shape = (-1, *[1] * (images.ndim - 2))
    return images.float() * scale.reshape(shape) + offset.reshape(shape)


@functools.lru_cache(maxsize=16)
def _scale_and_offset(
    mean: tuple[float, ...], std: tuple[float, ...], most: float, device: torch.device
) -> tuple[Tensor, Tensor]:
    # Kept, because moving them over for every batch would make a GPU wait.
    scale = torch.tensor([1 / (most * s) for s in std], device=device)
    offset = torch.tensor([-m / s for m, s in zip(mean, std, strict=True)], device=device)
    return scale, offset
