"""VGG-16 for photographs, plain or with batch normalisation."""

from __future__ import annotations

from typing import ClassVar, Literal

from torch import Tensor, nn

from steepest.models.base import MODELS, draw_convolutions
from steepest.models.dropout import make_dropout, place_dropout

_STAGES = ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3))
"""Channels and convolutions of each stage; a max-pooling ends it."""


_Placement = Literal["none", "head"]
"""``head``, as published, is after both hidden linear layers."""


class Vgg16(nn.Module):
    """Thirteen 3x3 convolutions and three linear layers, with torchvision's names.

    Images are at least 32x32: the five poolings leave nothing of smaller ones.

    Args:
        classes: The number of classes.
        channels: The number of image channels.
        batch_norm: Whether to normalise after each convolution.
        dropout: How likely an activation is dropped after each linear layer but the last; None
            for never.
    """

    head_layers: ClassVar[tuple[str, ...]] = ("classifier.6",)

    def __init__(
        self,
        classes: int,
        channels: int = 3,
        *,
        batch_norm: bool = False,
        dropout: float | None = 0.5,
    ) -> None:
        super().__init__()
        self.features = _make_features(channels, batch_norm=batch_norm)
        pools = [i for i, m in enumerate(self.features) if isinstance(m, nn.MaxPool2d)]
        self.block_layers = tuple(f"features.{i}" for i in pools[1:])
        self.avgpool = nn.AdaptiveAvgPool2d(7)
        self.classifier = nn.Sequential(
            nn.Linear(512 * 7 * 7, 4096),
            nn.ReLU(),
            make_dropout(dropout),
            nn.Linear(4096, 4096),
            nn.ReLU(),
            make_dropout(dropout),
            nn.Linear(4096, classes),
        )
        draw_convolutions(self)
        for module in self.classifier:
            if isinstance(module, nn.Linear):
                nn.init.normal_(module.weight, 0.0, 0.01)
                nn.init.zeros_(module.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Map images [N, channels, H, W] to logits [N, classes]."""
        logits: Tensor = self.classifier(self.avgpool(self.features(x)).flatten(1))
        return logits


@MODELS.register("vgg16")
def vgg16(
    classes: int,
    channels: int = 3,
    *,
    dropout: _Placement = "head",
    dropout_rate: float | None = None,
) -> nn.Module:
    """Make a VGG-16 for photographs, of 224x224 pixels or so."""
    rates = place_dropout(dropout, dropout_rate)
    return Vgg16(classes, channels, dropout=rates.head)


@MODELS.register("vgg16-bn")
def vgg16_bn(
    classes: int,
    channels: int = 3,
    *,
    dropout: _Placement = "head",
    dropout_rate: float | None = None,
) -> nn.Module:
    """Make a VGG-16 with batch normalisation."""
    rates = place_dropout(dropout, dropout_rate)
    return Vgg16(classes, channels, batch_norm=True, dropout=rates.head)


def _make_features(channels: int, *, batch_norm: bool) -> nn.Sequential:
    modules: list[nn.Module] = []
    for width, depth in _STAGES:
        for _ in range(depth):
            modules.append(nn.Conv2d(channels, width, 3, padding=1))
            if batch_norm:
                modules.append(nn.BatchNorm2d(width))
            modules.append(nn.ReLU())
            channels = width
        modules.append(nn.MaxPool2d(2))
    return nn.Sequential(*modules)
