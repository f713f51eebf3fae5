"""The paper's entropy scheme."""

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


@strategy("entropy-gradnorm")
@dataclass(frozen=True)
class EntropyGradnorm(Scorer):
    """Gradient norm of the prediction's entropy: score(x) = ‖∇_θ H(p(x; θ))‖.

    The gradient with respect to the logits is −p ∘ (log p + H): it vanishes for certain *and* for
    uniform predictions, so that a weak model ranks its most uncertain samples last. Every
    selection measures how far that is the case (see ``Regime``).

    Attributes:
        norm: ``"l2"``, the paper's ‖·‖, or ``"tensor-sum"``, the sum of the norms of the
            parameter tensors, as in the published code.
        layers: ``"all"``, or ``"last"``: over the last linear layer alone, for the price of a
            forward pass. The ranking differs.
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
        return [task.entropy(logits_of(outputs))]

    return losses
