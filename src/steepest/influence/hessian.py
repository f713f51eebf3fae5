"""The exact Hessian of an objective. For a net it is indefinite as a rule."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.func import grad, jvp

from steepest.influence.curvature import Curvature
from steepest.influence.examples import Source
from steepest.influence.losses import SampleLoss
from steepest.influence.measuring import BATCH_SIZE
from steepest.influence.objective import Objective
from steepest.influence.parameters import Layers
from steepest.influence.vectors import Vector
from steepest.modules.batches import Inputs
from steepest.tasks.base import Losses


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
        model: Any module that returns logits, or carries them in its output; left as found.
        task: Whose loss is meant.
        examples: What the model was trained on, or a fixed part of it.
        weight_decay: What the optimiser's weight decay was.
        layers: Which parameters take part.
        batch_size: Examples in flight.
        loss: Which loss of a sample; influence is about the one the model was trained by.
    """
    return Hessian(
        Objective(
            model, task, examples, weight_decay=weight_decay, layers=layers,
            batch_size=batch_size, loss=loss,
        )
    )  # fmt: skip
