"""A small net for images of 8x8 to 32x32 that trains on a few hundred in under a second."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor, nn

from steepest.models.dropout import NOWHERE, Rates, make_dropout, register_net


class SmallCnn(nn.Module):
    """Three 3x3 convolutions, the mean over the image, and a linear layer.

    The strides let the last convolution see all of an 8x8 image, so the mean loses little.

    Args:
        classes: The number of classes.
        channels: The number of image channels.
        dropout: How likely activations are dropped, and where; a block is a convolution.
    """

    head_layers: ClassVar[tuple[str, ...]] = ("fc",)
    block_layers: ClassVar[tuple[str, ...]] = ("features.2", "features.5", "features.8")

    def __init__(self, classes: int, channels: int = 3, *, dropout: Rates = NOWHERE) -> None:
        super().__init__()
        rate = dropout.blocks
        self.features = nn.Sequential(
            *_make_layer(channels, 16, 1, rate),
            *_make_layer(16, 32, 2, rate),
            *_make_layer(32, 64, 2, rate),
        )
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.dropout = make_dropout(dropout.head)
        self.fc = nn.Linear(64, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Map images [N, channels, H, W] to logits [N, classes]."""
        logits: Tensor = self.fc(self.dropout(self.avgpool(self.features(x)).flatten(1)))
        return logits


register_net("small-cnn", SmallCnn, "Make a small net for small images.")


def _make_layer(
    channels_in: int, channels_out: int, stride: int, dropout: float | None
) -> list[nn.Module]:
    conv = nn.Conv2d(channels_in, channels_out, 3, stride, padding=1, bias=False)
    # In one layer with the ReLU, so that the numbers of the layers behind stay the same.
    last = nn.ReLU() if dropout is None else nn.Sequential(nn.ReLU(), make_dropout(dropout))
    return [conv, nn.BatchNorm2d(channels_out), last]
