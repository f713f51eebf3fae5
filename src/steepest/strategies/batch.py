"""What a strategy sees of the pool: one batch of samples under the present model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn

from steepest.errors import ModelError
from steepest.gradnorm import inputs as batches
from steepest.gradnorm.engine import Engine
from steepest.gradnorm.inputs import Inputs, logits_of
from steepest.gradnorm.last_layer import last_layer_squares
from steepest.gradnorm.losses import RowLosses
from steepest.seeds import SampleId
from steepest.tasks.base import Losses

Layers = Literal["all", "last"]
"""Which parameters a gradient is taken over: all that train, or those of the last layer."""


CROSS_ENTROPY = Losses()
"""The losses of a task that nothing is said of."""


class Batch:
    """N unlabelled samples, with what can be known of them without labels.

    The model runs at most once however much is asked for: gradient norms bring the logits along.

    Args:
        ids: The samples' ids [N].
        inputs: What the model takes.
        model: The model in eval mode.
        engine: Measures gradients; None for strategies that did not declare to need them.
        seed: Seeds every draw, keyed by sample id.
        task: The task's losses; by default cross-entropy.
    """

    def __init__(
        self,
        ids: Sequence[SampleId],
        inputs: Inputs,
        *,
        model: nn.Module,
        engine: Engine | None = None,
        seed: int = 0,
        task: Losses = CROSS_ENTROPY,
    ) -> None:
        self.ids = ids
        self.seed = seed
        self.task = task
        self._inputs = inputs
        self._model = model
        self._engine = engine
        self._logits: Tensor | None = None

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def logits(self) -> Tensor:
        """Logits of the model's predictions [N, C, ...], one distribution at each position."""
        if self._logits is None:
            with torch.no_grad():
                self._keep(batches.call(self._model, self._inputs))
        if self._logits is None:
            raise ModelError("the model returned no logits")
        return self._logits

    def squared_norms(self, losses: RowLosses, layers: Layers = "all") -> list[Tensor]:
        """Return squared gradient norms per parameter tensor, one table [N, P] per loss.

        Args:
            losses: Maps the model's outputs for some rows of the batch to losses, each [N]. Give
                the same function for every batch if you can: a GPU records what it does then.
            layers: Over all parameters, or over those of the last layer alone.
        """
        if self._engine is None:
            raise ModelError("a strategy that measures gradients must declare Needs.GRADIENTS")
        if layers == "last":
            outputs, squares = last_layer_squares(self._model, self._inputs, losses)
        else:
            outputs, squares = self._engine.squared_norms(self._inputs, losses)
        self._keep(outputs)
        return squares

    def _keep(self, outputs: Any) -> None:  # noqa: ANN401
        logits = logits_of(outputs).detach()
        classes = getattr(self.task, "classes", logits.shape[1])
        if logits.shape[1] != classes:
            raise ModelError(
                f"the model has {logits.shape[1]} outputs, but the task has {classes} classes: "
                "give one of them the other's number"
            )
        self._logits = self.task.distributions(logits)
        if len(self._logits) != len(self.ids):
            raise ModelError(
                f"the model returned {len(self._logits)} rows of logits for {len(self.ids)} samples"
            )
