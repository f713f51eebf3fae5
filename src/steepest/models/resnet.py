"""Residual networks: ResNet-18 and -50 for photographs, CIFAR and volumes.

State-dict names are torchvision's. A variant is a block, the depth of its four stages and a stem.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal, NamedTuple, get_args

from torch import Tensor, nn

from steepest.errors import UnknownNameError
from steepest.models.base import MODELS, draw_convolutions
from steepest.models.dropout import (
    NOWHERE,
    Placement,
    Rates,
    make_dropout,
    place_dropout,
    register_net,
)

Stem = Literal["s1", "s2", "imagenet"]
"""The layers before the stages.

``s1`` is a kernel of width 3 and stride 1, ``s2`` the same with stride 2, ``imagenet`` one of
width 7 and stride 2 with a max-pooling of stride 2 after it.
"""


class Layers(NamedTuple):
    """The layer types for one number of dimensions."""

    conv: type[nn.Conv2d | nn.Conv3d]
    norm: type[nn.BatchNorm2d | nn.BatchNorm3d]
    maxpool: type[nn.MaxPool2d | nn.MaxPool3d]
    avgpool: type[nn.AdaptiveAvgPool2d | nn.AdaptiveAvgPool3d]


IMAGES = Layers(nn.Conv2d, nn.BatchNorm2d, nn.MaxPool2d, nn.AdaptiveAvgPool2d)
VOLUMES = Layers(nn.Conv3d, nn.BatchNorm3d, nn.MaxPool3d, nn.AdaptiveAvgPool3d)


class BasicBlock(nn.Module):
    """Two convolutions of width 3 beside a shortcut.

    Args:
        channels_in: Channels of the input.
        width: Channels of both convolutions, and of the output.
        stride: Stride of the first convolution and of the shortcut.
        dilation: Dilation of both convolutions.
        layers: For images or for volumes.
        dropout: How likely an activation is dropped between the convolutions, and again before
            the shortcut is added; None for never.
    """

    expansion: ClassVar[int] = 1

    def __init__(
        self,
        channels_in: int,
        width: int,
        stride: int,
        *,
        dilation: int = 1,
        layers: Layers = IMAGES,
        dropout: float | None = None,
    ) -> None:
        super().__init__()
        self.conv1 = layers.conv(
            channels_in, width, 3, stride, padding=dilation, dilation=dilation, bias=False
        )
        self.bn1 = layers.norm(width)
        self.relu = nn.ReLU()
        self.conv2 = layers.conv(width, width, 3, padding=dilation, dilation=dilation, bias=False)
        self.bn2 = layers.norm(width)
        self.downsample = _make_shortcut(channels_in, width, stride, layers)
        self.dropout1, self.dropout2 = make_dropout(dropout), make_dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """Map [N, channels_in, H, W] to [N, width, H / stride, W / stride]."""
        out = self.dropout1(self.relu(self.bn1(self.conv1(x))))
        out = self.dropout2(self.bn2(self.conv2(out)))
        activated: Tensor = self.relu(out + self.downsample(x))
        return activated


class Bottleneck(nn.Module):
    """A narrow convolution of width 3 between two of width 1, beside a shortcut.

    Args:
        channels_in: Channels of the input.
        width: Channels of the first two convolutions; the output has four times as many.
        stride: Stride of the second convolution and of the shortcut.
        dilation: Dilation of the second convolution.
        layers: For images or for volumes.
        dropout: How likely an activation is dropped after the second convolution, and again
            before the shortcut is added; None for never.
    """

    expansion: ClassVar[int] = 4

    def __init__(
        self,
        channels_in: int,
        width: int,
        stride: int,
        *,
        dilation: int = 1,
        layers: Layers = IMAGES,
        dropout: float | None = None,
    ) -> None:
        super().__init__()
        channels_out = width * self.expansion
        self.conv1 = layers.conv(channels_in, width, 1, bias=False)
        self.bn1 = layers.norm(width)
        self.conv2 = layers.conv(
            width, width, 3, stride, padding=dilation, dilation=dilation, bias=False
        )
        self.bn2 = layers.norm(width)
        self.conv3 = layers.conv(width, channels_out, 1, bias=False)
        self.bn3 = layers.norm(channels_out)
        self.relu = nn.ReLU()
        self.downsample = _make_shortcut(channels_in, channels_out, stride, layers)
        self.dropout1, self.dropout2 = make_dropout(dropout), make_dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """Map [N, channels_in, H, W] to [N, 4 * width, H / stride, W / stride]."""
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.dropout1(self.relu(self.bn2(self.conv2(out))))
        out = self.dropout2(self.bn3(self.conv3(out)))
        activated: Tensor = self.relu(out + self.downsample(x))
        return activated


Block = type[BasicBlock | Bottleneck]

_18, _50 = (2, 2, 2, 2), (3, 4, 6, 3)
"""Blocks of each stage."""


class ResNet(nn.Module):
    """A stem, four stages of 64, 128, 256 and 512 channels, the mean, and a linear layer.

    Every layer has the first weights that its own type draws.

    Args:
        block: The block of the stages; its expansion multiplies the channels.
        depths: Blocks of each stage.
        classes: The number of classes.
        channels: The number of input channels.
        stem: The layers before the stages.
        layers: For images or for volumes.
        dropout: How likely activations are dropped, and where.

    Raises:
        UnknownNameError: If there is no stem of that name.
    """

    head_layers: ClassVar[tuple[str, ...]] = ("fc",)
    block_layers: ClassVar[tuple[str, ...]] = ("layer1", "layer2", "layer3", "layer4")

    def __init__(
        self,
        block: Block,
        depths: Sequence[int],
        classes: int,
        channels: int,
        *,
        stem: Stem,
        layers: Layers = IMAGES,
        dropout: Rates = NOWHERE,
    ) -> None:
        super().__init__()
        if stem not in get_args(Stem):
            raise UnknownNameError("stem", stem, get_args(Stem))
        kernel, stride = 7 if stem == "imagenet" else 3, 1 if stem == "s1" else 2
        self.conv1 = layers.conv(channels, 64, kernel, stride, padding=kernel // 2, bias=False)
        self.bn1 = layers.norm(64)
        self.relu = nn.ReLU()
        self.maxpool = layers.maxpool(3, 2, padding=1) if stem == "imagenet" else nn.Identity()
        wide, rate = block.expansion, dropout.blocks

        def make(channels_in: int, width: int, depth: int, stride: int) -> nn.Sequential:
            return make_stage(block, channels_in, width, depth, stride, layers=layers, dropout=rate)

        self.layer1 = make(64, 64, depths[0], 1)
        self.layer2 = make(64 * wide, 128, depths[1], 2)
        self.layer3 = make(128 * wide, 256, depths[2], 2)
        self.layer4 = make(256 * wide, 512, depths[3], 2)
        self.avgpool = layers.avgpool(1)
        self.dropout = make_dropout(dropout.head)
        self.fc = nn.Linear(512 * wide, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Map images [N, channels, H, W] or volumes [N, channels, D, H, W] to [N, classes]."""
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        logits: Tensor = self.fc(self.dropout(self.avgpool(x).flatten(1)))
        return logits


def make_stage(
    block: Block,
    channels_in: int,
    width: int,
    depth: int,
    stride: int,
    *,
    dilation: int = 1,
    layers: Layers = IMAGES,
    dropout: float | None = None,
) -> nn.Sequential:
    """Make blocks in a row, of which the first has the stride and widens the input."""
    rest = [(width * block.expansion, 1)] * (depth - 1)
    return nn.Sequential(
        *(
            block(channels, width, step, dilation=dilation, layers=layers, dropout=dropout)
            for channels, step in [(channels_in, stride), *rest]
        )
    )


def _make_shortcut(
    channels_in: int, channels_out: int, stride: int, layers: Layers
) -> nn.Sequential | nn.Identity:
    if stride == 1 and channels_in == channels_out:
        return nn.Identity()
    conv = layers.conv(channels_in, channels_out, 1, stride, bias=False)
    return nn.Sequential(conv, layers.norm(channels_out))


class ResNet18(ResNet):
    """ResNet-18 as used on ImageNet, with torchvision's names and first weights."""

    def __init__(self, classes: int, channels: int = 3, *, dropout: Rates = NOWHERE) -> None:
        super().__init__(BasicBlock, _18, classes, channels, stem="imagenet", dropout=dropout)
        draw_convolutions(self)


class ResNet50(ResNet):
    """ResNet-50 as used on ImageNet, with torchvision's names and first weights."""

    def __init__(self, classes: int, channels: int = 3, *, dropout: Rates = NOWHERE) -> None:
        super().__init__(Bottleneck, _50, classes, channels, stem="imagenet", dropout=dropout)
        draw_convolutions(self)


class CifarResNet18(ResNet):
    """ResNet-18 as used on CIFAR, with torchvision's names."""

    def __init__(self, classes: int, channels: int = 3, *, dropout: Rates = NOWHERE) -> None:
        super().__init__(BasicBlock, _18, classes, channels, stem="s1", dropout=dropout)


class CifarResNet50(ResNet):
    """ResNet-50 as used on CIFAR, with torchvision's names."""

    def __init__(self, classes: int, channels: int = 3, *, dropout: Rates = NOWHERE) -> None:
        super().__init__(Bottleneck, _50, classes, channels, stem="s1", dropout=dropout)


register_net("resnet18", ResNet18, "Make a ResNet-18 for photographs, of 224x224 pixels or so.")
register_net("resnet50", ResNet50, "Make a ResNet-50 for photographs, of 224x224 pixels or so.")
register_net("cifar-resnet18", CifarResNet18, "Make a ResNet-18 for small images.")
register_net("cifar-resnet50", CifarResNet50, "Make a ResNet-50 for small images.")


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
        super().__init__(
            BasicBlock, _18, classes, channels, stem=stem, layers=VOLUMES, dropout=dropout
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
