"""ResNet-50 for photographs: a 7x7 stem of stride 2 and pooling before the stages."""

from __future__ import annotations

from torch import nn

from steepest.models.base import MODELS
from steepest.models.dropout import NOWHERE, Placement, Rates, place_dropout
from steepest.models.initial import draw_convolutions
from steepest.models.resnet import Bottleneck, ResNet


class ResNet50(ResNet):
    """ResNet-50 as used on ImageNet, with torchvision's names and first weights.

    Args:
        classes: The number of classes.
        channels: The number of image channels.
        dropout: How likely activations are dropped, and where.
    """

    def __init__(self, classes: int, channels: int = 3, *, dropout: Rates = NOWHERE) -> None:
        super().__init__(
            Bottleneck, (3, 4, 6, 3), classes, channels, stem="imagenet", dropout=dropout
        )
        draw_convolutions(self)


@MODELS.register("resnet50")
def resnet50(
    classes: int,
    channels: int = 3,
    *,
    dropout: Placement = "none",
    dropout_rate: float | None = None,
) -> nn.Module:
    """Make a ResNet-50 for photographs, of 224x224 pixels or so."""
    return ResNet50(classes, channels, dropout=place_dropout(dropout, dropout_rate))
