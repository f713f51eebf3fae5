"""DRN-D-22 for segmentation: a dilated residual network that labels every pixel.

The last stages dilate their convolutions instead of striding, so the map that is classified has
an eighth of the image's resolution, not a thirty-second.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor, nn

from steepest.models.base import draw_convolutions
from steepest.models.dropout import NOWHERE, Rates, make_dropout, register_net
from steepest.models.resnet import BasicBlock, make_stage


class DrnD22(nn.Module):
    """DRN-D-22 with a linear classifier per pixel and a frozen bilinear upsampling.

    Names are those of the authors' segmentation model: ``base.0`` to ``base.8``, ``seg``, ``up``.
    Unlike theirs it returns logits, not their log-softmax.

    Args:
        classes: The number of classes.
        channels: The number of image channels.
        dropout: How likely activations are dropped, and where.
    """

    head_layers: ClassVar[tuple[str, ...]] = ("seg", "up")
    block_layers: ClassVar[tuple[str, ...]] = ("base.3", "base.4", "base.5", "base.6")

    def __init__(self, classes: int, channels: int = 3, *, dropout: Rates = NOWHERE) -> None:
        super().__init__()
        rate = dropout.blocks
        self.base = nn.Sequential(
            _make_layer(channels, 16, kernel=7),
            _make_layer(16, 16),
            _make_layer(16, 32, stride=2),
            make_stage(BasicBlock, 32, 64, 2, 2, dropout=rate),
            make_stage(BasicBlock, 64, 128, 2, 2, dropout=rate),
            make_stage(BasicBlock, 128, 256, 2, 1, dilation=2, dropout=rate),
            make_stage(BasicBlock, 256, 512, 2, 1, dilation=4, dropout=rate),
            _make_layer(512, 512, dilation=2),
            _make_layer(512, 512),
        )
        self.dropout = make_dropout(dropout.head)
        self.seg = nn.Conv2d(512, classes, 1)
        self.up = _make_upsampling(classes)
        draw_convolutions(self)

    def forward(self, x: Tensor) -> Tensor:
        """Map images [N, channels, H, W] to logits [N, classes, H, W].

        Sides that are no multiple of 8 are upsampled to the next one; what is too much at the
        bottom and on the right is cut off.
        """
        logits: Tensor = self.up(self.seg(self.dropout(self.base(x))))
        return logits[..., : x.shape[-2], : x.shape[-1]]

    @staticmethod
    def rename_weights(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Give the authors' classification weights the names of the segmentation model.

        There, ``base.0`` to ``base.8`` are ``layer0`` to ``layer8``; the classifier for whole
        images, ``fc``, has no place here.
        """
        if "layer0.0.weight" not in state:
            return dict(state)
        return {
            re.sub(r"^layer(?=\d\.)", "base.", name): value
            for name, value in state.items()
            if not name.startswith("fc.")
        }


register_net(
    "drn-d-22", DrnD22, "Make a DRN-D-22 for segmentation, with logits [N, classes, H, W]."
)


def _make_layer(
    channels_in: int, channels_out: int, *, kernel: int = 3, stride: int = 1, dilation: int = 1
) -> nn.Sequential:
    padding = dilation * (kernel // 2)
    conv = nn.Conv2d(channels_in, channels_out, kernel, stride, padding, dilation, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(channels_out), nn.ReLU())


def _make_upsampling(classes: int) -> nn.ConvTranspose2d:
    """Make a bilinear upsampling by 8, each class on its own.

    Beyond the border it sees zeros: in the outer four pixels logits fade towards them.
    """
    up = nn.ConvTranspose2d(classes, classes, 16, 8, padding=4, groups=classes, bias=False)
    hat = 1 - ((torch.arange(16) - 7.5) / 8).abs()
    with torch.no_grad():
        up.weight.copy_(torch.outer(hat, hat))
    # Frozen, it counts in no gradient norm and no optimiser changes it.
    return up.requires_grad_(False)
