"""Entropy sampling."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from steepest.modules.losses import entropy
from steepest.strategies.base import Scorer, strategy
from steepest.strategies.batch import Batch


@strategy("entropy")
@dataclass(frozen=True)
class Entropy(Scorer):
    """Entropy of the prediction: score(x) = −Σ_i p_i log p_i.

    For dense outputs the mean over positions.
    """

    def score(self, batch: Batch) -> Tensor:
        """Return entropies [N]."""
        return entropy(batch.logits)
