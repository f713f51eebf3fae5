"""A pool in which the backbone is not the point: features in clusters, and a head on them."""

from __future__ import annotations

from math import isqrt

import torch
from torch import Tensor, nn

from steepest.core.seeds import generator

CHANNELS = 8
_CLUSTERS = 100
_TILE = 1 << 16


class FeatureHead(nn.Module):
    """A linear head with dropout on samples that are features already.

    Samples are images [8, H, W] with 8·H·W features, so that methods that read images have some.

    Args:
        features: Features of a sample (D).
        classes: C.
    """

    head_layers = ("dropout", "fc")
    block_layers = ("body",)

    def __init__(self, features: int, classes: int) -> None:
        super().__init__()
        self.body = nn.Identity()
        self.flatten = nn.Flatten()
        self.dropout = nn.Dropout(0.5)
        self.fc = nn.Linear(features, classes)

    def forward(self, images: Tensor) -> Tensor:
        """Return logits [N, C]."""
        logits: Tensor = self.fc(self.dropout(self.flatten(self.body(images))))
        return logits


def image_sides(features: int) -> tuple[int, int]:
    """Return the height and width of the images that hold so many features, as square as can be.

    A height below 2 says that there are none.
    """
    pixels = features // CHANNELS if features % CHANNELS == 0 else 0
    height = next((h for h in range(isqrt(pixels), 0, -1) if pixels % h == 0), 0)
    return height, pixels // max(1, height)


def make_head(features: int, classes: int, seed: int) -> FeatureHead:
    """Make a head with weights by a seed."""
    head = FeatureHead(features, classes)
    random = generator(seed, "bench head")
    with torch.no_grad():
        head.fc.weight.copy_(torch.randn(classes, features, generator=random) / features**0.5)
        head.fc.bias.zero_()
    return head.eval()


def make_pool(samples: int, features: int, seed: int) -> Tensor:
    """Make non-negative features in clusters of uneven size, as a trained net has them.

    Args:
        samples: N.
        features: D; 8 · height · width of an image.
        seed: Decides all numbers, tile by tile: a smaller pool is the beginning of a larger one.

    Returns:
        Samples [N, 8, H, W].
    """
    random = generator(seed, "bench centres")
    centres = torch.randn(_CLUSTERS, features, generator=random)
    shares = torch.rand(_CLUSTERS, generator=random) ** 2 + 0.05
    pool = torch.empty(samples, features)
    for start in range(0, samples, _TILE):
        here = pool[start : start + _TILE]
        random = generator(seed, "bench samples", start)
        which = torch.multinomial(shares, _TILE, replacement=True, generator=random)
        noise = torch.randn(_TILE, features, generator=random)
        here.copy_((centres[which] + 0.7 * noise)[: len(here)])
    return pool.relu_().reshape(samples, CHANNELS, *image_sides(features))
