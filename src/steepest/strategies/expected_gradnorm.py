"""The paper's expected-loss scheme."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor

from steepest.gradnorm.norms import SampleNorm, combine
from steepest.modules.batches import logits_of
from steepest.modules.losses import RowLosses, one_per_task
from steepest.strategies.base import Needs, Scorer, strategy
from steepest.strategies.batch import Batch, Layers
from steepest.tasks.base import Losses


@strategy("expected-gradnorm")
@dataclass(frozen=True)
class ExpectedGradnorm(Scorer):
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
        (squares,) = batch.squared_norms(_losses(batch.task), self.layers)
        return combine(squares, self.norm)


@one_per_task
def _losses(task: Losses) -> RowLosses:
    def losses(outputs: Any, _rows: slice) -> list[Tensor]:  # noqa: ANN401
        return [task.expected_loss(logits_of(outputs))]

    return losses
