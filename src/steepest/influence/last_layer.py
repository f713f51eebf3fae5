"""The last linear layer alone: its Gauss–Newton matrix is small enough to be built and solved."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import grad, jvp

from steepest.core.progress import Progress, as_progress
from steepest.errors import InputError, ModelError
from steepest.influence import vectors
from steepest.influence.examples import Source
from steepest.influence.functional_model import BATCH_SIZE, measuring, plain
from steepest.influence.objective import Objective, check_amount
from steepest.influence.solution import Solution, StopWatch
from steepest.influence.vectors import Vector
from steepest.modules import batches
from steepest.modules.batches import Inputs
from steepest.modules.head import find_penultimate
from steepest.tasks.base import Losses

_MOST_PARAMETERS = 8000


def last_layer_parameters(model: nn.Module, examples: Source) -> list[str]:
    """Return the names of the trainable parameters of the layer that makes the logits.

    They are what ``layers`` takes elsewhere.

    Raises:
        ModelError: If no single linear layer makes them.
    """
    model = plain(model)
    inputs, _ = next(iter(examples.batches(2)))
    place = next(model.parameters())
    path = find_penultimate(model, batches.move(inputs, place.device, place.dtype))
    layer = model.get_submodule(path)
    prefix = f"{path}." if path else ""
    names = [f"{prefix}{n}" for n, p in layer.named_parameters(recurse=False) if p.requires_grad]
    if not isinstance(layer, nn.Linear) or f"{prefix}weight" not in names:
        raise ModelError("the last layer is no trainable nn.Linear: use solve_cg instead")
    return names


def check_last_layer(model: nn.Module, examples: Source) -> None:
    """Look at a few examples whether the last layer can be solved for alone.

    Raises:
        ModelError: If the logits do not come straight from a linear layer on [N, D].
    """
    path = last_layer_parameters(model, examples)[0].rpartition(".")[0]
    inputs, _ = next(iter(examples.batches(2)))
    place = next(model.parameters())
    layer = plain(model).get_submodule(path)
    _features(model, layer, batches.move(inputs, place.device, place.dtype))


def solve_last_layer(
    model: nn.Module,
    task: Losses,
    examples: Source,
    wanted: Vector,
    *,
    damping: float = 0.0,
    weight_decay: float = 0.0,
    batch_size: int = BATCH_SIZE,
    progress: bool | Progress = True,
) -> Solution:
    """Return s over the last layer, all others held fixed, by its exact Gauss–Newton matrix.

    One forward pass and a Cholesky factorisation: it is quick, and a check on other solvers.

    Args:
        model: Any module whose logits [N, C] come straight from a linear layer; left unchanged.
        task: Whose training loss is meant.
        examples: The model's training data, or a fixed part of it.
        wanted: v, with entries for the last layer at least.
        damping: λ.
        weight_decay: The optimiser's weight decay.
        batch_size: Examples in flight.
        progress: Whether to show progress.

    Raises:
        ModelError: If the logits do not come straight from a linear layer.
        InputError: If the layer is too large, or the matrix is not positive definite.
    """
    watch = StopWatch()
    check_amount("damping", damping)
    names = last_layer_parameters(model, examples)
    objective = Objective(
        model, task, examples, weight_decay=weight_decay, layers=names, batch_size=batch_size
    )
    here = {name: wanted[name] for name in objective.parameters if name in wanted}
    vectors.check_vector(here, objective.parameters)
    with as_progress(progress).task("last layer", len(examples)) as step:
        matrix = _matrix(objective, names[0].rpartition(".")[0], step.advance)
    diagonal = damping + objective.weight_decay
    flat = _stacked(here)
    damped = matrix + diagonal * torch.eye(len(matrix), dtype=matrix.dtype, device=matrix.device)
    found = _solve(damped, flat)
    length = float(flat.norm())
    return Solution(
        vector=_unstacked(found, here),
        solver="last-layer",
        curvature="gauss-newton",
        damping=damping,
        effective_damping=diagonal,
        iterations=1,
        residuals=(),
        residual=float((flat - damped @ found).norm()) / length if length else 0.0,
        converged=True,
        indefinite=False,
        smallest_eigenvalue=None,
        seconds=watch.seconds(),
        excluded=objective.excluded,
        note="the last layer alone",
    )


def _solve(matrix: Tensor, right: Tensor) -> Tensor:
    """Return the x [D] of matrix · x = right, by a Cholesky factorisation."""
    root, failed = torch.linalg.cholesky_ex(matrix)
    if int(failed):
        raise InputError(
            "the last layer's matrix is not positive definite: use weight decay, or damping above 0"
        )
    return torch.cholesky_solve(right.reshape(-1, 1), root)[:, 0]


def _matrix(objective: Objective, path: str, advance: Callable[[int], None]) -> Tensor:
    """Return 1/n Σ_i H_i ⊗ h_i h_iᵀ as a matrix [C·D, C·D] in double precision."""
    layer = objective.model.get_submodule(path)
    with_bias = any(name.endswith("bias") for name in objective.parameters)
    total: Tensor | None = None
    with measuring(objective.model):
        for inputs, targets in objective.batches():
            features, logits = _features(objective.model, layer, inputs)
            rows = features.double()
            if with_bias:
                rows = torch.cat([rows, torch.ones_like(rows[:, :1])], dim=1)
            size = rows.shape[1] * logits.shape[1]
            if size > _MOST_PARAMETERS:
                raise InputError(
                    f"the last layer has {size} parameters (limit {_MOST_PARAMETERS}): use "
                    "solve_cg with layers=last_layer_parameters(model, examples)"
                )
            part = _kronecker_sum(_logit_hessians(objective, logits, targets), rows)
            total = part if total is None else total + part
            advance(len(rows))
    if total is None:
        raise InputError("there are no examples: give at least one")
    return total / len(objective)


def _features(model: nn.Module, layer: nn.Module, inputs: Inputs) -> tuple[Tensor, Tensor]:
    """Return the last layer's inputs [N, D] and outputs [N, C]."""
    seen: list[tuple[Tensor, Tensor]] = []

    def note(_: nn.Module, args: tuple[Any, ...], output: Tensor) -> None:
        seen.append((args[0].detach().clone(), output))

    with layer.register_forward_hook(note), torch.no_grad():
        logits = batches.logits_of(batches.call(model, inputs))
    if len(seen) != 1 or seen[0][1] is not logits or seen[0][0].ndim != 2:
        raise ModelError(
            "the logits do not come straight from a linear layer on [N, D]: use solve_cg instead"
        )
    return seen[0][0], logits


def _logit_hessians(objective: Objective, logits: Tensor, targets: Tensor | None) -> Tensor:
    """Return each sample's Hessian of the loss in the logits [N, C, C], in double precision."""
    exact = logits.double()

    def loss(z: Tensor) -> Tensor:
        return objective.losses(z, targets).sum()

    units = torch.eye(exact.shape[1], dtype=exact.dtype, device=exact.device)
    columns = [jvp(grad(loss), (exact,), (unit.expand_as(exact),))[1] for unit in units]
    return torch.stack(columns, dim=2)


def _kronecker_sum(hessians: Tensor, rows: Tensor) -> Tensor:
    """Return Σ_n H_n ⊗ h_n h_nᵀ [C·D, C·D], a pair of classes at a time."""
    classes, width = hessians.shape[1], rows.shape[1]
    total = rows.new_zeros(classes, width, classes, width)
    for c in range(classes):
        for d in range(c + 1):
            block = (rows * hessians[:, c, d, None]).T @ rows
            total[c, :, d], total[d, :, c] = block, block
    return total.reshape(classes * width, classes * width)


def _stacked(vector: Vector) -> Tensor:
    """Return weight [C, D] and bias [C] as they lie in the matrix [C·(D + 1)]."""
    parts = [t.double() if t.ndim == 2 else t.double()[:, None] for t in _ordered(vector)]
    return torch.cat(parts, dim=1).reshape(-1)


def _unstacked(flat: Tensor, like: Vector) -> Vector:
    weight = _ordered(like)[0]
    table = flat.reshape(len(weight), -1)
    return {
        name: (table[:, : weight.shape[1]] if t.ndim == 2 else table[:, -1]).to(t)
        for name, t in like.items()
    }


def _ordered(vector: Vector) -> list[Tensor]:
    return sorted(vector.values(), key=lambda tensor: -tensor.ndim)
