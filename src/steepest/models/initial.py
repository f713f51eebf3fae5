"""First weights for nets with ReLU, where they are not those of the layers themselves."""

from __future__ import annotations

from torch import nn


def draw_convolutions(model: nn.Module) -> None:
    """Draw every convolution's weights from N(0, 2 / fan_out) anew and set its bias to 0.

    The variance of gradients then stays the same from layer to layer. The fan-out counts the
    kernel: its size times the output channels.
    """
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
            if module.bias is not None:
                nn.init.zeros_(module.bias)
