"""ResNet-18 for 32x32 images: a 3x3 stem of stride 1 and no pooling before the stages."""

from __future__ import annotations

from torch import nn

from steepest.models.base import MODELS
from steepest.models.dropout import NOWHERE, Placement, Rates, place_dropout
from steepest.models.resnet import BasicBlock, ResNet


class CifarResNet18(ResNet):
    """ResNet-18 as used on CIFAR, with torchvision's names.

    Args:
        classes: The number of classes.
        channels: The number of image channels.
        dropout: How likely activations are dropped, and where.
    """

    def __init__(self, classes: int, channels: int = 3, *, dropout: Rates = NOWHERE) -> None:
        super().__init__(BasicBlock, (2, 2, 2, 2), classes, channels, stem="s1", dropout=dropout)


@MODELS.register("cifar-resnet18")
def cifar_resnet18(
    classes: int,
    channels: int = 3,
    *,
    dropout: Placement = "none",
    dropout_rate: float | None = None,
) -> nn.Module:
    """Make a ResNet-18 for small images."""
    return CifarResNet18(classes, channels, dropout=place_dropout(dropout, dropout_rate))
