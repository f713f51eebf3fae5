"""The ResNet-18 for volumes whose stem keeps the resolution, as a load for measurements."""

from __future__ import annotations

from torch import nn

from steepest.models.resnet import ResNet3d18


def resnet3d_18_s1(classes: int, channels: int) -> nn.Module:
    """Make the costly form, with a stem of stride 1."""
    return ResNet3d18(classes, channels, "s1")
