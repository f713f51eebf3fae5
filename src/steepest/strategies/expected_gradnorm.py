"""The paper's expected-loss scheme."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor

from steepest.gradnorm.inputs import logits_of
from steepest.gradnorm.losses import (
    RowLosses,
    TrainingLoss,
    expected,
    one_per_loss,
    pointwise_cross_entropy,
)
from steepest.gradnorm.norms import SampleNorm, combine
from steepest.strategies.base import Needs, Strategy, strategy
from steepest.strategies.batch import Batch, Layers


@strategy("expected-gradnorm")
@dataclass(frozen=True)
class ExpectedGradnorm(Strategy):
    """Gradient norm of the expected training loss: score(x) = ‖∇_θ Σ_i p_i L(z(x; θ), i)‖.

    L is the task's own training loss and the posterior p stays in the graph. For plain
    cross-entropy the expected loss *is* the entropy, and the score that of ``entropy-gradnorm``;
    it differs for class weights, label smoothing and other losses.

    Attributes:
        norm: As for ``entropy-gradnorm``.
        layers: As for ``entropy-gradnorm``.
    """

    needs: ClassVar[Needs] = Needs.GRADIENTS

    norm: SampleNorm = "l2"
    layers: Layers = "all"

    def score(self, batch: Batch) -> Tensor:
        """Return gradient norms [N]."""
        training_loss = batch.training_loss or pointwise_cross_entropy
        (squares,) = batch.squared_norms(_losses(training_loss), self.layers)
        return combine(squares, self.norm)


@one_per_loss
def _losses(training_loss: TrainingLoss) -> RowLosses:
    def losses(outputs: Any, _rows: slice) -> list[Tensor]:  # noqa: ANN401
        return [expected(logits_of(outputs), training_loss)]

    return losses
