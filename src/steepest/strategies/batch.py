"""A batch of samples as strategies see it, under the current model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn

from steepest.core.seeds import SampleId
from steepest.core.wording import counted
from steepest.errors import InputError, ModelError
from steepest.gradnorm.engine import Engine
from steepest.modules import batches
from steepest.modules.batches import Inputs, check_classes_second, logits_of
from steepest.modules.features import extract_features
from steepest.modules.last_layer import last_layer_squares
from steepest.modules.losses import RowLosses
from steepest.strategies.feature_table import FeatureTable
from steepest.tasks.base import Losses

Layers = Literal["all", "last"]
"""Parameters that a gradient is taken over: all trainable ones, or the last layer's."""


CROSS_ENTROPY = Losses()
"""The default losses of a task."""


class Batch:
    """N unlabelled samples, with everything that is known without labels.

    The model runs at most once however much is requested: gradient norms bring the logits along.

    Args:
        ids: The samples' ids [N].
        inputs: The model's input.
        model: The model in eval mode.
        engine: Measures gradients; None for strategies that did not declare to need them.
        seed: Seeds every draw, keyed by sample id.
        task: The task's losses; by default cross-entropy.
        penultimate: The layer whose input is the feature; detected by default.
        features: Features of the user's own by id, to be taken instead of the model's.
        prepared: The result of the strategy's preparation, made before the pass over samples.
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
        penultimate: str | None = None,
        features: Mapping[Any, Tensor] | None = None,
        prepared: Any = None,  # noqa: ANN401
    ) -> None:
        self.ids = ids
        self.inputs = inputs
        self.seed = seed
        self.task = task
        self.model = model
        self.prepared = prepared
        self._engine = engine
        self._penultimate = penultimate
        self._own_features = {} if features is None else features
        self._logits: Tensor | None = None
        self._features: Tensor | None = None
        self._maps: tuple[Tensor, ...] | None = None

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def logits(self) -> Tensor:
        """Logits of the model's predictions [N, C, ...], one distribution at each position."""
        if self._logits is None:
            with torch.no_grad():
                self._keep(batches.call(self.model, self.inputs))
        if self._logits is None:
            raise ModelError("the model returned no logits")
        return self._logits

    @property
    def known_logits(self) -> Tensor | None:
        """The logits, if the model ran already."""
        return self._logits

    @property
    def features(self) -> Tensor:
        """Inputs of the model's last layer [N, D]; for maps, the mean over positions."""
        if self._features is None:
            if self._own_features:
                self._features = self._look_up()
            else:
                self._extract(maps=False)
        if self._features is None:
            raise ModelError("the model has no features")
        return self._features

    @property
    def maps(self) -> tuple[Tensor, ...]:
        """The outputs of the model's blocks, each [N, C, ...]."""
        if self._maps is None:
            self._extract(maps=True)
        return self._maps or ()

    def draws(self, count: int) -> Iterator[Tensor]:
        """Yield the logits [N, C, ...] of several draws of the model's dropout.

        A draw is one thinned network: the same for every sample, whatever the batch.
        """
        from steepest.modules.draws import dropout_draws

        for logits in dropout_draws(self.model, self.inputs, count, self.seed):
            yield self.task.distributions(logits)

    def squared_norms(self, losses: RowLosses, layers: Layers = "all") -> list[Tensor]:
        """Return squared gradient norms per parameter tensor, one table [N, P] per loss.

        Args:
            losses: Maps the model's outputs for some rows of the batch to losses, each [N]. Give
                the same function for every batch if possible: a GPU can then record its operations.
            layers: Over all parameters, or over those of the last layer alone.
        """
        if self._engine is None:
            raise ModelError("a strategy that measures gradients must declare Needs.GRADIENTS")
        if layers == "last":
            outputs, squares = last_layer_squares(self.model, self.inputs, losses)
        else:
            outputs, squares = self._engine.squared_norms(self.inputs, losses)
        self._keep(outputs)
        return squares

    def _extract(self, *, maps: bool) -> None:
        found = extract_features(self.model, self.inputs, maps=maps, penultimate=self._penultimate)
        self._keep(found.logits)
        if not self._own_features:
            self._features = found.penultimate
        self._maps = found.maps if maps else None

    def _look_up(self) -> Tensor:
        missing = next((i for i in self.ids if i not in self._own_features), None)
        if missing is not None:
            raise InputError(f"the given features have none for sample {missing!r}: one for each")
        if isinstance(self._own_features, FeatureTable):
            return self._own_features.take(self.ids)
        return stack_features({i: self._own_features[i] for i in self.ids})

    def _keep(self, outputs: Any) -> None:  # noqa: ANN401
        logits = logits_of(outputs).detach()
        check_classes_second(outputs)
        classes = getattr(self.task, "classes", logits.shape[1])
        if logits.shape[1] != classes:
            raise ModelError(
                f"the model has {counted(logits.shape[1], 'output')}, but the task has "
                f"{classes} classes: give one of them the other's number"
            )
        self._logits = self.task.distributions(logits)
        if len(self._logits) != len(self.ids):
            raise ModelError(
                f"the model returned {len(self._logits)} rows of logits for {len(self.ids)} samples"
            )


def stack_features(given: Mapping[SampleId, Any]) -> Tensor:
    """Return features that a user gave for N samples as one table [N, D].

    Raises:
        InputError: Naming the first that is no vector of numbers, or of another length.
    """
    try:
        rows = torch.stack([torch.as_tensor(value) for value in given.values()])
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(_say_what_is_wrong(given)) from error
    rows = rows.detach().flatten(1) if rows.ndim > 1 else rows.detach()[:, None]
    if rows.shape[1] == 0:
        raise InputError("the given features are empty: give a vector of numbers for each sample")
    # One type for all batches, whatever the numbers of the first ones are.
    return rows if rows.dtype == torch.float64 else rows.float()


def _say_what_is_wrong(given: Mapping[SampleId, Any]) -> str:
    length = None
    for name, value in given.items():
        try:
            found = list(torch.as_tensor(value).shape)
        except (TypeError, ValueError, RuntimeError):
            return f"the given features of sample {name!r} are no numbers: give a vector for each"
        length = found if length is None else length
        if found != length:
            return f"the given features of sample {name!r} are of shape {found}, others of {length}"
    return "the given features make no table: give vectors of one type, on one device"
