"""BADGE: diverse gradients of the last layer (Ash and others, 2020)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from steepest.core.seeds import generator
from steepest.strategies.algorithms.d2_sampling import First, d2_sample_products
from steepest.strategies.base import Needs, Strategy, strategy
from steepest.strategies.batch import Batch
from steepest.strategies.choice import Choice
from steepest.strategies.feature_rows import finite_rows
from steepest.strategies.view import PoolView


@strategy("badge")
@dataclass(frozen=True)
class Badge(Strategy):
    """Samples whose last-layer gradients are large and differ from each other.

    With the likeliest class ŷ as the label, the gradient of the loss with respect to the last
    layer's weights is g(x) = (p − e_ŷ) ⊗ z for the prediction p and the feature z. Samples are
    drawn as k-means++ draws its centres:

        score(x) = D(x) = distance of g(x) to the nearest gradient drawn before,

    the next one with a chance ∝ D². Only p and z are kept: with a = e_ŷ − p the distances come
    from ⟨g, g'⟩ = ⟨a, a'⟩ ⟨z, z'⟩, so that memory does not grow with classes × features. If all
    gradients are zero or drawn already, the rest is drawn evenly.

    Attributes:
        first: The first sample: that of the largest gradient (``"norm"``, as in the published
            code) or any (``"random"``, as in the article).
    """

    needs: ClassVar[Needs] = Needs.LOGITS | Needs.FEATURES
    dense: ClassVar[bool] = False

    first: First = "norm"

    def choose(self, pool: PoolView, k: int) -> Choice:
        """Return k samples, in the order in which they were drawn."""
        found = pool.collect(self._factors, f"gradients for {self.name}")
        left, right = (finite_rows(found[name], pool.ids).to(pool.device) for name in found)
        draws = generator(pool.seed, "badge")
        picks = d2_sample_products(left, right, k, draws, first=self.first, progress=pool.progress)
        return Choice(picks.positions, picks.scores)

    def _factors(self, batch: Batch) -> dict[str, Tensor]:
        """Return e_ŷ − p [N, C] and z [N, D]."""
        features = batch.features
        self.check_positions(batch.logits)
        p = batch.logits.double().softmax(1)
        likeliest = torch.zeros_like(p).scatter_(1, p.argmax(1, keepdim=True), 1.0)
        return {"residuals": likeliest - p, "features": features}
