"""The training objective: the loss of one sample, the mean over examples, and weight decay."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from steepest.errors import InputError, NonFiniteError, UnknownNameError
from steepest.influence import vectors
from steepest.influence.examples import Batch, Source
from steepest.influence.functional_model import (
    BATCH_SIZE,
    explained,
    in_parts,
    logits_at,
    measuring,
    plain,
)
from steepest.influence.vectors import Layers, Vector, choose_parameters
from steepest.modules import batches
from steepest.modules.batches import Inputs
from steepest.tasks.base import Losses

SampleLoss = (
    Literal["true-label", "pseudo-label", "entropy", "expected"]
    | Callable[[Tensor, Tensor | None], Tensor]
)
"""A loss by name (of the label, the predicted label, or label-free), or ``z, y -> [N]``."""

Function = Callable[[Tensor, Tensor | None], Tensor]
_NAMES = get_args(get_args(SampleLoss)[0])


def loss_function(task: Losses, loss: SampleLoss = "true-label") -> Function:
    """Return the loss of each sample [N] as a function of logits [N, C, ...] and targets.

    It is computed in double precision, where the logits of sure samples still differ.

    Raises:
        UnknownNameError: If the loss is unknown; with the nearest name.
        InputError: When it is called, if targets are missing or the samples are summed.
    """
    if not callable(loss) and loss not in _NAMES:
        raise UnknownNameError("loss", str(loss), _NAMES)

    def function(logits: Tensor, targets: Tensor | None) -> Tensor:
        exact = logits.double()
        values = loss(exact, targets) if callable(loss) else _named(task, loss, exact, targets)
        if values.shape != logits.shape[:1]:
            raise InputError(
                f"the loss gave shape {list(values.shape)} for {len(logits)} samples: it must "
                "give one value each"
            )
        return values

    return function


def _named(task: Losses, loss: str, logits: Tensor, targets: Tensor | None) -> Tensor:
    if loss == "entropy":
        return task.entropy(logits)
    if loss == "expected":
        return task.expected_loss(logits)
    if loss == "pseudo-label":
        return task.training_loss(logits, task.distributions(logits).detach().argmax(1))
    if targets is None:
        raise InputError("the loss 'true-label' needs targets: use 'pseudo-label' or 'entropy'")
    return task.training_loss(logits, targets)


class Objective:
    """J(θ) = 1/n Σ_i L(x_i; θ) + ½ · weight_decay · ‖θ‖² over fixed examples.

    The model is in eval mode for it and is left unchanged; nothing is augmented.

    Args:
        model: Any module that returns logits, or carries them in its output.
        task: Whose loss is meant.
        examples: The n examples.
        weight_decay: The optimiser's weight decay; it is part of the objective.
        layers: Which parameters θ takes part; the others are constants.
        batch_size: Examples in flight; results do not depend on it but for rounding.
        loss: The loss of a sample.

    Attributes:
        parameters: The parameters θ by name; they follow the model.
        excluded: Names of trainable parameters that take no part.
    """

    def __init__(
        self,
        model: nn.Module,
        task: Losses,
        examples: Source,
        *,
        weight_decay: float = 0.0,
        layers: Layers = "all",
        batch_size: int = BATCH_SIZE,
        loss: SampleLoss = "true-label",
    ) -> None:
        self.model = plain(model)
        self.task = task
        self.examples = examples
        self.weight_decay = check_amount("weight_decay", weight_decay)
        self.batch_size = check_count("batch_size", batch_size)
        self.parameters, self.excluded = choose_parameters(self.model, layers)
        self._loss = loss_function(task, loss)

    def __len__(self) -> int:
        return len(self.examples)

    @property
    def device(self) -> torch.device:
        """Device of the parameters."""
        return next(iter(self.parameters.values())).device

    def batches(self, rows: Tensor | None = None) -> Iterator[Batch]:
        """Yield the examples, or some rows of them, on the model's device."""
        kind = next(iter(self.parameters.values())).dtype
        for inputs, targets in self.examples.batches(self.batch_size, rows):
            moved = batches.detached(batches.move(inputs, self.device, kind))
            yield moved, None if targets is None else targets.to(self.device)

    def losses(self, logits: Tensor, targets: Tensor | None) -> Tensor:
        """Return each sample's loss [N] in double precision."""
        return self._loss(logits, targets)

    def logits(self, parameters: Vector, inputs: Inputs) -> Tensor:
        """Return the logits [N, C, ...] that these parameters would give."""
        return logits_at(self.model, parameters, inputs)

    def gradient(self) -> Vector:
        """Return ∇J(θ)."""
        total = sum_of_gradients(self)
        mean = vectors.scaled(1 / len(self), total)
        return vectors.axpy(self.weight_decay, self.parameters, mean)


def sum_of_gradients(objective: Objective, rows: Tensor | None = None) -> Vector:
    """Return Σ_i ∇L(x_i), without weight decay.

    Raises:
        NonFiniteError: If it is NaN or infinite.
    """

    def on_batch(inputs: Inputs, targets: Tensor | None) -> Vector:
        leaves = {n: p.clone().requires_grad_() for n, p in objective.parameters.items()}
        loss = objective.losses(objective.logits(leaves, inputs), targets).sum()
        found = torch.autograd.grad(
            loss, list(leaves.values()), allow_unused=True, materialize_grads=True
        )
        return dict(zip(leaves, found, strict=True))

    total = vectors.zeros_like(objective.parameters)
    with measuring(objective.model):
        for inputs, targets in objective.batches(rows):
            for part in in_parts(lambda x, y: explained(lambda: on_batch(x, y)), inputs, targets):
                vectors.add_in_place(total, part)
    if not math.isfinite(vectors.norm(total)):
        raise NonFiniteError("the gradient is NaN or infinite: look at the model's outputs")
    return total


def summed_gradient(
    model: nn.Module,
    task: Losses,
    examples: Source,
    *,
    loss: SampleLoss = "true-label",
    layers: Layers = "all",
    batch_size: int = BATCH_SIZE,
) -> Vector:
    """Return v = Σ_j ∇L(x_j), the gradient of the summed loss of test examples.

    Args:
        model: Any module that returns logits, or carries them in its output; left unchanged.
        task: Whose loss is meant.
        examples: The test examples x_j.
        loss: The loss of a sample.
        layers: The parameters that take part, the same as for the curvature.
        batch_size: Examples in flight.

    Raises:
        NonFiniteError: If it is NaN or infinite.
        InputError: If an argument does not fit.
    """
    objective = Objective(model, task, examples, layers=layers, batch_size=batch_size, loss=loss)
    return sum_of_gradients(objective)


def check_amount(name: str, value: object) -> float:
    """Return a finite number of at least 0.

    Raises:
        InputError: If it is none.
    """
    if not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        raise InputError(f"{name} is {value!r}; give a number of at least 0")
    return float(value)


def check_count(name: str, value: int) -> int:
    """Return a whole number of at least 1.

    Raises:
        InputError: If it is none.
    """
    if type(value) is not int or value < 1:
        raise InputError(f"{name} is {value!r}; give a whole number of at least 1")
    return value
