"""The Gauss–Newton matrix: the Hessian without the curvature of the model itself."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.func import grad, jvp, vjp

from steepest.influence.curvature import Curvature
from steepest.influence.examples import Source
from steepest.influence.measuring import BATCH_SIZE
from steepest.influence.objective import Objective
from steepest.influence.parameters import Layers
from steepest.influence.vectors import Vector
from steepest.modules.batches import Inputs
from steepest.tasks.base import Losses


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
        model: Any module that returns logits, or carries them in its output; left as found.
        task: Whose training loss is meant.
        examples: What the model was trained on, or a fixed part of it.
        weight_decay: What the optimiser's weight decay was.
        layers: Which parameters take part.
        batch_size: Examples in flight.
    """
    return GaussNewton(
        Objective(
            model, task, examples, weight_decay=weight_decay, layers=layers, batch_size=batch_size
        )
    )
