"""A small net for images of 8x8 to 32x32 that trains on a few hundred in under a second."""

from __future__ import annotations

from torch import Tensor, nn

from steepest.models.base import MODELS


class SmallCnn(nn.Module):
    """Three 3x3 convolutions, the mean over the image, and a linear layer.

    The strides let the last convolution see all of an 8x8 image, so the mean loses little.

    Args:
        classes: The number of classes.
        channels: The number of image channels.
    """

    def __init__(self, classes: int, channels: int = 3) -> None:
        super().__init__()
        self.features = nn.Sequential(
            *_make_layer(channels, 16, 1), *_make_layer(16, 32, 2), *_make_layer(32, 64, 2)
        )
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(64, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Map images [N, channels, H, W] to logits [N, classes]."""
        logits: Tensor = self.fc(self.avgpool(self.features(x)).flatten(1))
        return logits


@MODELS.register("small-cnn")
def small_cnn(classes: int, channels: int = 3) -> nn.Module:
    """Make a small net for small images."""
    return SmallCnn(classes, channels)


def _make_layer(channels_in: int, channels_out: int, stride: int) -> list[nn.Module]:
    conv = nn.Conv2d(channels_in, channels_out, 3, stride, padding=1, bias=False)
    return [conv, nn.BatchNorm2d(channels_out), nn.ReLU()]
