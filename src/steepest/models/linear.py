"""A linear head on features, and nothing else."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor, nn

from steepest.models.base import MODELS


class Linear(nn.Module):
    """Logits of features by one linear layer.

    Args:
        classes: The number of classes.
        channels: The number of features of a sample.
    """

    head_layers: ClassVar[tuple[str, ...]] = ("head",)

    def __init__(self, classes: int, channels: int = 3) -> None:
        super().__init__()
        self.head = nn.Linear(channels, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Map features [N, channels] to logits [N, classes]."""
        logits: Tensor = self.head(x)
        return logits


@MODELS.register("linear")
def linear(classes: int, channels: int = 3) -> nn.Module:
    """Make a linear head for features [N, channels]."""
    return Linear(classes, channels)
