"""A network that tells from a code whether its image is labelled."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from torch import Tensor, nn


class Discriminator(nn.Module):
    """Linear layers with ReLU from a code to one logit.

    Args:
        latent: Length of the code.
        widths: Of the layers in between.
    """

    def __init__(self, latent: int, widths: Sequence[int] = (512, 512)) -> None:
        super().__init__()
        self.layers = make_perceptron([latent, *widths, 1])

    def forward(self, codes: Tensor) -> Tensor:
        """Map codes [N, latent] to logits [N]."""
        logits: Tensor = self.layers(codes)
        return logits[:, 0]


def make_perceptron(widths: Sequence[int]) -> nn.Sequential:
    """Make linear layers with ReLU between them, with weights that suit it.

    Args:
        widths: Of the input, the layers in between, and the output.
    """
    layers: list[nn.Module] = []
    for before, after in itertools.pairwise(widths):
        linear = nn.Linear(before, after)
        nn.init.kaiming_normal_(linear.weight)
        nn.init.zeros_(linear.bias)
        layers += [linear, nn.ReLU()]
    return nn.Sequential(*layers[:-1])
