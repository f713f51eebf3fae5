"""ResNet-50 for 32x32 images: a 3x3 stem of stride 1 and no pooling before the stages."""

from __future__ import annotations

from torch import nn

from steepest.models.base import MODELS
from steepest.models.dropout import NOWHERE, Placement, Rates, place_dropout
from steepest.models.resnet import Bottleneck, ResNet


class CifarResNet50(ResNet):
    """ResNet-50 as used on CIFAR, with torchvision's names.

    Args:
        classes: The number of classes.
        channels: The number of image channels.
        dropout: How likely activations are dropped, and where.
    """

    def __init__(self, classes: int, channels: int = 3, *, dropout: Rates = NOWHERE) -> None:
        super().__init__(Bottleneck, (3, 4, 6, 3), classes, channels, stem="s1", dropout=dropout)


@MODELS.register("cifar-resnet50")
def cifar_resnet50(
    classes: int,
    channels: int = 3,
    *,
    dropout: Placement = "none",
    dropout_rate: float | None = None,
) -> nn.Module:
    """Make a ResNet-50 for small images."""
    return CifarResNet50(classes, channels, dropout=place_dropout(dropout, dropout_rate))
