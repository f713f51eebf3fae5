"""ResNet-18 for volumes such as 32x32x32 tomograms, with a choice of stems."""

from __future__ import annotations

from torch import nn

from steepest.models.base import MODELS
from steepest.models.dropout import NOWHERE, Placement, Rates, place_dropout
from steepest.models.resnet import VOLUMES, BasicBlock, ResNet, Stem


class ResNet3d18(ResNet):
    """ResNet-18 in three dimensions; the names are those of the flat one.

    Args:
        classes: The number of classes.
        channels: The number of channels of a volume.
        stem: ``s1`` keeps the resolution and costs about eight times as much as ``s2``;
            ``imagenet`` is the cheapest, and leaves one voxel of a 32x32x32 volume.
        dropout: How likely activations are dropped, and where.
    """

    def __init__(
        self,
        classes: int,
        channels: int = 1,
        stem: Stem = "s2",
        *,
        dropout: Rates = NOWHERE,
    ) -> None:
        depths = (2, 2, 2, 2)
        super().__init__(
            BasicBlock, depths, classes, channels, stem=stem, layers=VOLUMES, dropout=dropout
        )


@MODELS.register("resnet3d-18")
def resnet3d_18(
    classes: int,
    channels: int = 1,
    *,
    stem: Stem = "s2",
    dropout: Placement = "none",
    dropout_rate: float | None = None,
) -> nn.Module:
    """Make a ResNet-18 for volumes [N, channels, D, H, W], with a stem of stride 2."""
    return ResNet3d18(classes, channels, stem, dropout=place_dropout(dropout, dropout_rate))
