"""ResNet-18 for volumes such as 32x32x32 tomograms, with a choice of stems."""

from __future__ import annotations

from torch import nn

from steepest.models.base import MODELS
from steepest.models.resnet import VOLUMES, BasicBlock, ResNet, Stem


class ResNet3d18(ResNet):
    """ResNet-18 in three dimensions; the names are those of the flat one.

    Args:
        classes: The number of classes.
        channels: The number of channels of a volume.
        stem: ``s1`` keeps the resolution and costs about eight times as much as ``s2``;
            ``imagenet`` is the cheapest, and leaves one voxel of a 32x32x32 volume.
    """

    def __init__(self, classes: int, channels: int = 1, stem: Stem = "s2") -> None:
        super().__init__(BasicBlock, (2, 2, 2, 2), classes, channels, stem=stem, layers=VOLUMES)


@MODELS.register("resnet3d-18")
def resnet3d_18(classes: int, channels: int = 1, stem: Stem = "s2") -> nn.Module:
    """Make a ResNet-18 for volumes [N, channels, D, H, W], with a stem of stride 2."""
    return ResNet3d18(classes, channels, stem)
