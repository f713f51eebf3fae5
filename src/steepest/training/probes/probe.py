"""A linear head on features, as a model like any other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class ProbeReport:
    """Hyperparameters of a fitted probe, and its accuracy on held-out labels.

    Attributes:
        samples: Labelled samples.
        variance: Of the prior on the weights, chosen by cross-validation.
        temperature: The temperature of the logits, chosen likewise.
        accuracy: Share of held-out samples that were recognised.
        loss: Their mean cross-entropy, by calibrated probabilities.
    """

    samples: int
    variance: float
    temperature: float
    accuracy: float
    loss: float


class Probe(nn.Module):
    """Logits [N, C] of features [N, D]: ``head((x − mean) / scale)``.

    Args:
        width: D.
        classes: C.
        report: How it was fitted.
    """

    head_layers: ClassVar[tuple[str, ...]] = ("head",)

    mean: Tensor
    scale: Tensor

    def __init__(self, width: int, classes: int, report: ProbeReport | None = None) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("scale", torch.ones(()))
        self.head = nn.Linear(width, classes)
        self.report = report

    def forward(self, x: Tensor) -> Tensor:
        """Return logits, whose softmax are calibrated probabilities."""
        logits: Tensor = self.head((x - self.mean) / self.scale)
        return logits

    @torch.no_grad()
    def probabilities(self, rows: Tensor) -> Tensor:
        """Return probabilities [N, C] of features [N, D], as float64."""
        logits: Tensor = self(rows.to(self.mean))
        return logits.double().softmax(1)
