"""A perceptron for samples that are rows of features rather than images."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor, nn

from steepest.errors import InputError
from steepest.models.base import MODELS
from steepest.models.dropout import NOWHERE, Placement, Rates, make_dropout, place_dropout


class Mlp(nn.Module):
    """Two hidden layers with ReLUs, and a linear layer.

    Args:
        classes: The number of classes.
        channels: The number of features of a sample.
        width: Units of a hidden layer.
        dropout: How likely activations are dropped, and where; a block is a hidden layer.

    Raises:
        InputError: If there is no unit.
    """

    head_layers: ClassVar[tuple[str, ...]] = ("fc",)

    def __init__(
        self, classes: int, channels: int = 3, *, width: int = 128, dropout: Rates = NOWHERE
    ) -> None:
        super().__init__()
        if width < 1:
            raise InputError(f"width is {width}; a hidden layer needs at least 1 unit")
        self.hidden = nn.Sequential(
            nn.Linear(channels, width),
            nn.ReLU(),
            make_dropout(dropout.blocks),
            nn.Linear(width, width),
            nn.ReLU(),
            make_dropout(dropout.blocks),
        )
        self.dropout = make_dropout(dropout.head)
        self.fc = nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Map features [N, channels] to logits [N, classes]."""
        logits: Tensor = self.fc(self.dropout(self.hidden(x)))
        return logits


@MODELS.register("mlp")
def mlp(
    classes: int,
    channels: int = 3,
    *,
    width: int = 128,
    dropout: Placement = "none",
    dropout_rate: float | None = None,
) -> nn.Module:
    """Make a perceptron for features [N, channels]."""
    return Mlp(classes, channels, width=width, dropout=place_dropout(dropout, dropout_rate))
