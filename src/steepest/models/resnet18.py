"""ResNet-18 for photographs: a 7x7 stem of stride 2 and pooling before the stages."""

from __future__ import annotations

from torch import nn

from steepest.models.base import MODELS
from steepest.models.initial import draw_convolutions
from steepest.models.resnet import BasicBlock, ResNet


class ResNet18(ResNet):
    """ResNet-18 as used on ImageNet, with torchvision's names and first weights.

    Args:
        classes: The number of classes.
        channels: The number of image channels.
    """

    def __init__(self, classes: int, channels: int = 3) -> None:
        super().__init__(BasicBlock, (2, 2, 2, 2), classes, channels, stem="imagenet")
        draw_convolutions(self)


@MODELS.register("resnet18")
def resnet18(classes: int, channels: int = 3) -> nn.Module:
    """Make a ResNet-18 for photographs, of 224x224 pixels or so."""
    return ResNet18(classes, channels)
