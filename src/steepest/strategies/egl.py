"""Expected gradient length (Settles, Craven and Ray, 2008)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import torch
from torch import Tensor

from steepest.gradnorm.inputs import logits_of
from steepest.gradnorm.losses import RowLosses, TrainingLoss, each_label, pointwise_cross_entropy
from steepest.gradnorm.norms import SampleNorm, combine
from steepest.strategies.base import Needs, Strategy, strategy
from steepest.strategies.batch import Batch


@strategy("egl")
@dataclass(frozen=True)
class ExpectedGradientLength(Strategy):
    """Gradient norm in expectation over the label: score(x) = Σ_i p_i ‖∇_θ L(z(x; θ), i)‖.

    Unlike the norm of the expected loss it does not vanish for uniform predictions. Costs one
    forward and C backward passes.

    Attributes:
        norm: As for ``entropy-gradnorm``.
    """

    needs: ClassVar[Needs] = Needs.GRADIENTS

    norm: SampleNorm = "l2"

    def score(self, batch: Batch) -> Tensor:
        """Return expected gradient lengths [N]."""
        loss = batch.training_loss or pointwise_cross_entropy
        tables = batch.squared_norms(_losses_under(loss))
        lengths = torch.stack([combine(table, self.norm) for table in tables], dim=1)
        return (batch.logits.double().softmax(1).to(lengths.device) * lengths).sum(1)


@lru_cache(maxsize=1)
def _losses_under(training_loss: TrainingLoss) -> RowLosses:
    # The same function for all batches: a GPU then knows that what it does can be recorded.
    def losses(outputs: Any, _rows: slice) -> list[Tensor]:  # noqa: ANN401
        return each_label(logits_of(outputs), training_loss)

    return losses
