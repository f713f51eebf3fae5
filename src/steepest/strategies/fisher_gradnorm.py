"""Root of the trace of a sample's Fisher information."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from steepest.core.seeds import keyed_uniform
from steepest.errors import InputError
from steepest.gradnorm.norms import SampleNorm, combine
from steepest.modules.batches import logits_of
from steepest.modules.losses import RowLosses, each_label, one_per_task
from steepest.strategies.base import Needs, Scorer, strategy
from steepest.strategies.batch import Batch, Layers
from steepest.tasks.base import Losses


@strategy("fisher-gradnorm")
@dataclass(frozen=True)
class FisherGradnorm(Scorer):
    """Root mean square gradient over the label: score(x) = √(Σ_i p_i ‖∇_θ L_i‖²).

    With cross-entropy this is √tr(J Σ Jᵀ) for the logits' Jacobian Jᵀ and Σ = diag(p) − ppᵀ. A
    vector v = √p∘ξ − p (√p·ξ) with random signs ξ has covariance Σ, so ‖J v‖² estimates the
    square without bias, whatever the number of classes. It does not vanish for uniform
    predictions.

    Attributes:
        draws: Random sign vectors per sample, keyed by its id; 0 sums over all C labels exactly,
            which takes one label per sample.
        norm: As for ``entropy-gradnorm``; squares are averaged before the root is taken.
        layers: As for ``entropy-gradnorm``.
    """

    needs: ClassVar[Needs] = Needs.GRADIENTS

    draws: int = 4
    norm: SampleNorm = "l2"
    layers: Layers = "all"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.draws < 0:
            raise InputError(f"fisher-gradnorm: draws must be 0 (exact) or more, not {self.draws}")

    def score(self, batch: Batch) -> Tensor:
        """Return root Fisher traces [N]."""
        if self.draws == 0:
            tables = batch.squared_norms(_each_label(batch.task), self.layers)
            weights = batch.logits.double().softmax(1)
            squares = torch.stack(tables, dim=1)
            return combine((weights[:, :, None].to(squares) * squares).sum(1), self.norm)
        tables = batch.squared_norms(
            lambda out, rows: self._projections(batch, out, rows), self.layers
        )
        return combine(torch.stack(tables).mean(0), self.norm)

    def _projections(self, batch: Batch, outputs: Any, rows: slice) -> list[Tensor]:  # noqa: ANN401
        """Return one loss v·z [N] per draw, v constant with covariance Σ at each position."""
        logits = batch.task.distributions(logits_of(outputs)).double()
        p = logits.detach().softmax(1)
        positions = logits[0, 0].numel()
        uniform = keyed_uniform(
            batch.seed, "fisher signs", batch.ids[rows], columns=self.draws * logits[0].numel()
        )
        signs = torch.from_numpy(uniform < 0.5).to(p.device).double() * 2 - 1
        signs = signs.reshape(len(logits), self.draws, *logits.shape[1:])
        losses = []
        for draw in range(self.draws):
            xi = signs[:, draw] * p.sqrt()
            v = xi - p * xi.sum(1, keepdim=True)
            losses.append((v * logits).flatten(1).sum(1) / positions)
        return losses


@one_per_task
def _each_label(task: Losses) -> RowLosses:
    def losses(outputs: Any, _rows: slice) -> list[Tensor]:  # noqa: ANN401
        shares = task.distributions(logits_of(outputs))
        if shares.ndim > 2:
            raise InputError(
                "fisher-gradnorm: draws=0 sums over all labels of a sample, and where each has "
                "many (label maps, several labels) they are too many: set draws to 1 or more"
            )
        return each_label(shares)

    return losses
