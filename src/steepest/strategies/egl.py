"""Expected gradient length (Settles, Craven and Ray, 2008)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from steepest.core.seeds import keyed_uniform
from steepest.errors import InputError
from steepest.gradnorm.norms import SampleNorm, combine
from steepest.modules.batches import logits_of
from steepest.modules.losses import RowLosses, each_label, one_label_each, one_per_task
from steepest.strategies.base import Needs, Scorer, strategy
from steepest.strategies.batch import Batch, Layers
from steepest.tasks.base import Losses


@strategy("egl")
@dataclass(frozen=True)
class ExpectedGradientLength(Scorer):
    """Gradient norm in expectation over the label: score(x) = Σ_i p_i ‖∇_θ L(z(x; θ), i)‖.

    Unlike the norm of the expected loss it does not vanish for uniform predictions. Costs one
    forward pass and a backward pass for each of the C labels, or for each label drawn.

    Attributes:
        draws: Labels drawn from p per sample, keyed by its id; their mean length estimates the
            score without bias. 0 sums over all C labels exactly.
        norm: As for ``entropy-gradnorm``.
        layers: As for ``entropy-gradnorm``.
    """

    needs: ClassVar[Needs] = Needs.GRADIENTS
    dense: ClassVar[bool] = False

    draws: int = 0
    norm: SampleNorm = "l2"
    layers: Layers = "all"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.draws < 0:
            raise InputError(f"egl: draws must be 0 (exact) or more, not {self.draws}")

    def score(self, batch: Batch) -> Tensor:
        """Return expected gradient lengths [N]."""
        if self.draws:
            tables = batch.squared_norms(
                lambda out, rows: self._drawn(batch, out, rows), self.layers
            )
            return torch.stack([combine(table, self.norm) for table in tables]).mean(0)
        tables = batch.squared_norms(_losses(batch.task), self.layers)
        lengths = torch.stack([combine(table, self.norm) for table in tables], dim=1)
        return (batch.logits.double().softmax(1).to(lengths.device) * lengths).sum(1)

    def _drawn(self, batch: Batch, outputs: Any, rows: slice) -> list[Tensor]:  # noqa: ANN401
        """Return the training loss [N] under each label drawn."""
        raw = logits_of(outputs).double()
        logits = one_label_each(batch.task.distributions(raw))
        uniform = keyed_uniform(batch.seed, "egl labels", batch.ids[rows], columns=self.draws)
        up_to = logits.detach().softmax(1).cumsum(1)
        drawn = torch.searchsorted(up_to, torch.from_numpy(uniform).to(up_to) * up_to[:, -1:])
        labels = drawn.clamp_max(logits.shape[1] - 1)
        return [batch.task.training_loss(raw, labels[:, draw]) for draw in range(self.draws)]


@one_per_task
def _losses(task: Losses) -> RowLosses:
    def losses(outputs: Any, _rows: slice) -> list[Tensor]:  # noqa: ANN401
        logits = logits_of(outputs)
        return each_label(task.distributions(logits), task.loss_given(logits))

    return losses
