"""The paper's chain of bounds: the influence, its size, and the product of two norms above it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from steepest.core.progress import Progress, as_progress
from steepest.errors import VerificationError
from steepest.gradnorm.norms import GradientNorms, SampleNorm, check_norm
from steepest.influence.effects import influence_on_test
from steepest.influence.examples import Source
from steepest.influence.functional_model import BATCH_SIZE, plain
from steepest.influence.objective import Objective, SampleLoss, loss_function
from steepest.influence.solution import Solution
from steepest.influence.vectors import Vector, norm
from steepest.modules import batches
from steepest.modules.preserve import evaluating
from steepest.tasks.base import Losses

_SLACK = 1e-3
"""Rounding of single precision, as a share of the bound."""


@dataclass(frozen=True, eq=False)
class BoundTerms:
    """Target ≤ Approx-1 ≤ Approx-2 for every sample; Approx-3 stands in for Approx-2.

    Attributes:
        target: s · ∇L(x) [N].
        approx1: Its absolute value [N].
        approx2: ‖∇L(x)‖ · ‖s‖ under the same model [N].
        approx3: The same with the gradient under the model before; None without one.
        solution_norm: ‖s‖.
        norm: Which norm a gradient's is.
        loss: The loss of a sample.
        note: How the target was computed if not by forward mode.
    """

    target: Tensor
    approx1: Tensor
    approx2: Tensor
    approx3: Tensor | None
    solution_norm: float
    norm: str
    loss: str
    note: str

    def holds(self) -> Tensor:
        """Say of each sample whether target ≤ approx1 ≤ approx2 but for rounding [N]."""
        room = _SLACK * self.approx2 + torch.finfo(torch.float32).tiny
        return (self.target <= self.approx1) & (self.approx1 <= self.approx2 + room)

    def means(self) -> dict[str, float]:
        """Return the mean over all samples of every term, as the paper's figure has them."""
        return {name: float(values.mean()) for name, values in self._terms().items()}

    def to_table(self) -> dict[str, Any]:
        """Return everything as plain numbers and words, ready for JSON."""
        return {
            **{name: values.tolist() for name, values in self._terms().items()},
            "solution_norm": self.solution_norm,
            "norm": self.norm,
            "loss": self.loss,
            "note": self.note,
        }

    def _terms(self) -> dict[str, Tensor]:
        named = {"target": self.target, "approx1": self.approx1, "approx2": self.approx2}
        return named if self.approx3 is None else {**named, "approx3": self.approx3}


def bound_terms(
    model: nn.Module,
    task: Losses,
    pool: Source,
    direction: Solution | Vector,
    *,
    loss: SampleLoss = "true-label",
    norm_kind: SampleNorm = "l2",
    earlier: nn.Module | None = None,
    batch_size: int = BATCH_SIZE,
    progress: bool | Progress = True,
) -> BoundTerms:
    """Return the terms of the paper's chain of bounds for every sample of a pool.

    Args:
        model: The model that s belongs to; left unchanged.
        task: Whose losses are meant.
        pool: N samples; with targets for ``loss="true-label"``.
        direction: s; gradients are measured over the parameters that it has entries for.
        loss: The loss of a sample.
        norm_kind: Of the gradient. ``"tensor-sum"`` is never smaller than ``"l2"``, so that the
            bound holds with it too, and is looser.
        earlier: The model of the cycle before, for Approx-3.
        batch_size: Samples in flight.
        progress: Whether to show progress.

    Raises:
        InputError: If an argument does not fit.
    """
    check_norm(norm_kind)
    s = direction.vector if isinstance(direction, Solution) else direction
    found = influence_on_test(
        model, task, pool, s, loss=loss, batch_size=batch_size, progress=progress
    )
    length = norm(s)

    def bound(measured: nn.Module) -> Tensor:
        objective = Objective(
            measured, task, pool, layers=list(s), batch_size=batch_size, loss=loss
        )
        return length * _gradient_norms(objective, loss, norm_kind, as_progress(progress))

    return BoundTerms(
        target=found.values,
        approx1=found.values.abs(),
        approx2=bound(plain(model)),
        approx3=None if earlier is None else bound(plain(earlier)),
        solution_norm=length,
        norm=norm_kind,
        loss=found.loss,
        note=found.note,
    )


def check_bounds(terms: BoundTerms) -> None:
    """Raise if a sample breaks the chain, which only a wrong computation can do.

    Raises:
        VerificationError: Names the first such sample.
    """
    broken = (~terms.holds()).nonzero()
    if len(broken):
        row = int(broken[0])
        raise VerificationError(
            f"the bound does not hold for {len(broken)} samples, first for row {row}: "
            f"|target| {float(terms.approx1[row]):.6g} exceeds {float(terms.approx2[row]):.6g}; "
            "compute both with one model and in double precision"
        )


def _gradient_norms(
    objective: Objective, loss: SampleLoss, kind: SampleNorm, progress: Progress
) -> Tensor:
    """Return ‖∇L(x)‖ over the parameters that take part [N], in double precision."""
    function = loss_function(objective.task, loss)

    def of_outputs(outputs: Any, targets: Tensor | None = None) -> Tensor:  # noqa: ANN401
        return function(batches.logits_of(outputs), targets)

    parts: list[Tensor] = []
    with evaluating(objective.model), progress.task("gradient norms", len(objective)) as step:
        for name, parameter in objective.model.named_parameters():
            parameter.requires_grad_(name in objective.parameters)
        measure = GradientNorms(
            objective.model, of_outputs, norm=kind, precision="fp32", microbatch="auto"
        )
        for inputs, targets in objective.batches():
            parts.append(measure(inputs, targets).double().cpu())
            step.advance(batches.count(inputs))
    return torch.cat(parts)
