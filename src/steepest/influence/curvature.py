"""Curvature of an objective as a product with vectors: Hessian and Gauss–Newton matrix."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.func import grad, jvp, vjp

from steepest.influence import vectors
from steepest.influence.examples import Source
from steepest.influence.functional_model import BATCH_SIZE, FirstThatWorks, in_parts, measuring
from steepest.influence.objective import Objective, SampleLoss
from steepest.influence.vectors import Layers, Vector
from steepest.modules.batches import Inputs
from steepest.tasks.base import Losses


class Curvature(ABC):
    """A symmetric matrix of the size of the parameters, weight decay on its diagonal included.

    Products are sums over the objective's examples, which never change: every product is one with
    the same matrix.

    Args:
        objective: Whose curvature it is.

    Attributes:
        name: The name.
        objective: As given.
    """

    name: ClassVar[str]

    def __init__(self, objective: Objective) -> None:
        self.objective = objective
        self._ways = FirstThatWorks("forward over reverse", "double backward")

    @property
    def parameters(self) -> Vector:
        """The parameters whose space it acts on."""
        return self.objective.parameters

    @property
    def note(self) -> str:
        """Note on products that are computed in an unusual way; otherwise empty."""
        return self._ways.describe()

    def product(self, vector: Vector, rows: Tensor | None = None) -> Vector:
        """Return the matrix times a vector.

        Args:
            vector: One tensor for each parameter.
            rows: Take the mean over these examples alone; None for all of them.

        Raises:
            InputError: If the vector does not fit.
            NonFiniteError: If it is not finite.
            ModelError: If the model cannot be differentiated twice.
        """
        vectors.check_vector(vector, self.parameters)
        count = len(self.objective) if rows is None else len(rows)
        total = vectors.zeros_like(self.parameters)

        def on_batch(inputs: Inputs, targets: Tensor | None) -> Vector:
            return self._ways(
                lambda: self._forward_over_reverse(inputs, targets, vector),
                lambda: self._double_backward(inputs, targets, vector),
            )

        with measuring(self.objective.model):
            for inputs, targets in self.objective.batches(rows):
                for part in in_parts(on_batch, inputs, targets):
                    vectors.add_in_place(total, part)
        mean = vectors.scaled(1 / count, total)
        return vectors.axpy(self.objective.weight_decay, vector, mean)

    @abstractmethod
    def _forward_over_reverse(
        self, inputs: Inputs, targets: Tensor | None, vector: Vector
    ) -> Vector:
        """Return the product for the sum over one batch."""

    @abstractmethod
    def _double_backward(self, inputs: Inputs, targets: Tensor | None, vector: Vector) -> Vector:
        """Return the same for models with a function that knows no forward derivative."""


class GaussNewton(Curvature):
    """G = 1/n Σ_i J_iᵀ H_i J_i + weight_decay · I.

    J_i are the derivatives of the logits and H_i the Hessian of the loss in the logits, for
    cross-entropy diag(p) − ppᵀ. It has no negative eigenvalue where the loss is convex in the
    logits, as cross-entropy is.
    """

    name: ClassVar[str] = "gauss-newton"

    def _forward_over_reverse(
        self, inputs: Inputs, targets: Tensor | None, vector: Vector
    ) -> Vector:
        def logits_of(parameters: Vector) -> Tensor:
            return self.objective.logits(parameters, inputs)

        def loss(logits: Tensor) -> Tensor:
            return self.objective.losses(logits, targets).sum()

        change = jvp(logits_of, (self.parameters,), (vector,))[1]
        found: Any = vjp(logits_of, self.parameters)
        logits, pull_back = found
        slope_change = jvp(grad(loss), (logits,), (change,))[1]
        product: Vector = pull_back(slope_change)[0]
        return product

    def _double_backward(self, inputs: Inputs, targets: Tensor | None, vector: Vector) -> Vector:
        leaves = {name: p.clone().requires_grad_() for name, p in self.parameters.items()}
        places = list(leaves.values())
        logits = self.objective.logits(leaves, inputs)
        # Jᵀw is linear in w, so that its derivative in w along a vector is J times that vector.
        weight = torch.zeros_like(logits, requires_grad=True)
        pulled = torch.autograd.grad(
            logits, places, weight, create_graph=True, allow_unused=True, materialize_grads=True
        )
        along = [(g * vector[name]).sum() for name, g in zip(leaves, pulled, strict=True)]
        change = torch.autograd.grad(torch.stack(along).sum(), weight, retain_graph=True)[0]

        def loss(z: Tensor) -> Tensor:
            return self.objective.losses(z, targets).sum()

        # The Hessian in the logits is symmetric: reverse over reverse multiplies by it as well.
        slope_change = vjp(grad(loss), logits.detach())[1](change)[0]
        found = torch.autograd.grad(
            logits, places, slope_change, allow_unused=True, materialize_grads=True
        )
        return dict(zip(leaves, found, strict=True))


def gauss_newton(
    model: nn.Module,
    task: Losses,
    examples: Source,
    *,
    weight_decay: float = 0.0,
    layers: Layers = "all",
    batch_size: int = BATCH_SIZE,
) -> GaussNewton:
    """Return the Gauss–Newton matrix of the training objective, as products with vectors.

    For cross-entropy it is the Fisher information of the model's predictions.

    Args:
        model: Any module that returns logits, or carries them in its output; left unchanged.
        task: Whose training loss is meant.
        examples: The model's training data, or a fixed part of it.
        weight_decay: The optimiser's weight decay.
        layers: The parameters that take part.
        batch_size: Examples in flight.
    """
    return GaussNewton(
        Objective(
            model, task, examples, weight_decay=weight_decay, layers=layers, batch_size=batch_size
        )
    )


class Hessian(Curvature):
    """∇²J(θ) = 1/n Σ_i ∇²L(x_i) + weight_decay · I."""

    name: ClassVar[str] = "hessian"

    def _forward_over_reverse(
        self, inputs: Inputs, targets: Tensor | None, vector: Vector
    ) -> Vector:
        def loss(parameters: Vector) -> Tensor:
            logits = self.objective.logits(parameters, inputs)
            return self.objective.losses(logits, targets).sum()

        product: Vector = jvp(grad(loss), (self.parameters,), (vector,))[1]
        return product

    def _double_backward(self, inputs: Inputs, targets: Tensor | None, vector: Vector) -> Vector:
        leaves = {name: p.clone().requires_grad_() for name, p in self.parameters.items()}
        places = list(leaves.values())
        loss = self.objective.losses(self.objective.logits(leaves, inputs), targets).sum()
        slopes = torch.autograd.grad(
            loss, places, create_graph=True, allow_unused=True, materialize_grads=True
        )
        along = torch.stack(
            [(g * vector[name]).sum().double() for name, g in zip(leaves, slopes, strict=True)]
        )
        found = torch.autograd.grad(along.sum(), places, allow_unused=True, materialize_grads=True)
        return dict(zip(leaves, found, strict=True))


def hessian(
    model: nn.Module,
    task: Losses,
    examples: Source,
    *,
    weight_decay: float = 0.0,
    layers: Layers = "all",
    batch_size: int = BATCH_SIZE,
    loss: SampleLoss = "true-label",
) -> Hessian:
    """Return the exact Hessian of the training objective, as products with vectors.

    It is indefinite for nets as a rule, so that its inverse needs more damping than its lowest
    eigenvalue is below 0; ``gauss_newton`` is the safe choice.

    Args:
        model: Any module that returns logits, or carries them in its output; left unchanged.
        task: Whose loss is meant.
        examples: The model's training data, or a fixed part of it.
        weight_decay: The optimiser's weight decay.
        layers: The parameters that take part.
        batch_size: Examples in flight.
        loss: The loss of a sample; influence is about the one the model was trained by.
    """
    return Hessian(
        Objective(
            model, task, examples, weight_decay=weight_decay, layers=layers,
            batch_size=batch_size, loss=loss,
        )
    )  # fmt: skip
