"""Least-confidence sampling."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from steepest.strategies.base import Scorer, strategy
from steepest.strategies.batch import Batch


@strategy("least-confidence")
@dataclass(frozen=True)
class LeastConfidence(Scorer):
    """Low probability of the most likely class: score(x) = 1 − max_i p_i.

    For dense outputs the mean over positions.
    """

    def score(self, batch: Batch) -> Tensor:
        """Return 1 − confidence [N]."""
        top = batch.logits.double().softmax(1).amax(1)
        return 1 - top.reshape(len(batch), -1).mean(1)
