"""ResNet-18 for 32x32 images: a 3x3 stem of stride 1 and no pooling before the stages."""

from __future__ import annotations

from torch import nn

from steepest.models.base import MODELS
from steepest.models.resnet import BasicBlock, ResNet


class CifarResNet18(ResNet):
    """ResNet-18 as used on CIFAR, with torchvision's names.

    Args:
        classes: The number of classes.
        channels: The number of image channels.
    """

    def __init__(self, classes: int, channels: int = 3) -> None:
        super().__init__(BasicBlock, (2, 2, 2, 2), classes, channels, stem="s1")


@MODELS.register("cifar-resnet18")
def cifar_resnet18(classes: int, channels: int = 3) -> nn.Module:
    """Make a ResNet-18 for small images."""
    return CifarResNet18(classes, channels)
