"""Margin sampling."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from steepest.strategies.base import Scorer, strategy
from steepest.strategies.batch import Batch


@strategy("margin")
@dataclass(frozen=True)
class Margin(Scorer):
    """Small gap between the two most likely classes: score(x) = p_(2) − p_(1).

    For dense outputs the mean over positions.
    """

    def score(self, batch: Batch) -> Tensor:
        """Return negative margins [N]."""
        top = batch.logits.double().softmax(1).topk(2, dim=1).values
        return (top[:, 1] - top[:, 0]).reshape(len(batch), -1).mean(1)
