"""The vectors s that influence is measured along: every curvature, damping and loss of a grid."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import nn

from steepest.core.progress import Progress, SilentProgress
from steepest.errors import InputError, UnknownNameError
from steepest.influence import (
    Curvature,
    KrylovSpace,
    Source,
    Vector,
    gauss_newton,
    hessian,
    span_krylov,
    summed_gradient,
    vectors,
)
from steepest.paper.analyses.sample_norms import LossName
from steepest.tasks.base import Losses

CurvatureName = Literal["gauss-newton", "hessian", "hessian-of-loss", "none"]
"""Of the training loss, of the loss that is asked about, or no curvature at all (λ → ∞)."""

CURVATURES: tuple[CurvatureName, ...] = ("gauss-newton", "hessian")
"""Default grid."""

DAMPINGS = (1e-3, 1e-2, 1e-1, 1.0)
"""λ that a grid takes by default; λ → ∞ is always among them."""


@dataclass(frozen=True, eq=False)
class Direction:
    """One s with how it came about.

    Attributes:
        curvature: The matrix C.
        damping: λ; infinite for ``"none"``, where s is v itself but for its length.
        loss: The loss whose summed gradient over the test samples v is.
        vector: s, one tensor for each parameter; None if the system has no solution.
        diagnostics: The solver's report, without the vector.
    """

    curvature: CurvatureName
    damping: float
    loss: LossName
    vector: Vector | None
    diagnostics: dict[str, Any]

    @property
    def sound(self) -> bool:
        """Whether the system was solved to its tolerance and is positive definite."""
        return self.vector is not None and bool(self.diagnostics.get("converged", False))

    def to(self, device: torch.device) -> Direction:
        """Return it with its vector on a device."""
        if self.vector is None:
            return self
        return replace(self, vector={name: t.to(device) for name, t in self.vector.items()})


def find_directions(
    model: nn.Module,
    task: Losses,
    learnt: Source,
    test: Source,
    *,
    losses: Sequence[LossName] = ("true-label", "entropy"),
    curvatures: Sequence[CurvatureName] = CURVATURES,
    dampings: Sequence[float] = DAMPINGS,
    weight_decay: float = 0.0,
    tolerance: float = 1e-3,
    most_iterations: int = 50,
    progress: Progress | None = None,
) -> list[Direction]:
    """Return s = (C + λI)⁻¹ Σ_j ∇L(x_j) for every loss, curvature and damping.

    For each loss and curvature one Krylov space serves all dampings. λ → ∞ is v alone and costs
    nothing.

    Args:
        model: Left unchanged.
        task: Whose losses are meant.
        learnt: The model's training data, or a fixed part of it: the curvature is its.
        test: The samples x_j; with targets for ``"true-label"``.
        losses: The losses that v is made of.
        curvatures: The matrices.
        dampings: The λ; ``math.inf`` is added.
        weight_decay: The optimiser's weight decay; it is part of the matrix.
        tolerance: Of the residual.
        most_iterations: Products for each loss and curvature.
        progress: Updated after each product.

    Raises:
        InputError: If an argument does not fit.
    """
    finite = [float(d) for d in dampings if not math.isinf(d)]
    found: list[Direction] = []
    for loss in losses:
        v = summed_gradient(model, task, test, loss=loss)
        found.append(_without_curvature(loss, v))
        for name in curvatures:
            if name == "none" or not finite:
                continue
            curvature = make_curvature(name, model, task, learnt, loss, weight_decay=weight_decay)
            space = span_krylov(
                curvature, v, finite, tolerance=tolerance, most_iterations=most_iterations,
                progress=progress or SilentProgress(),
            )  # fmt: skip
            found += [_solved(name, loss, damping, space) for damping in finite]
    return found


def make_curvature(
    name: CurvatureName,
    model: nn.Module,
    task: Losses,
    learnt: Source,
    loss: LossName,
    *,
    weight_decay: float = 0.0,
) -> Curvature:
    """Return a curvature by name.

    Args:
        name: ``"hessian-of-loss"`` is that of ``loss`` instead of the training loss.
        model: Left unchanged.
        task: Whose losses are meant.
        learnt: The model's training data, with targets.
        loss: The loss that is asked about.
        weight_decay: On the diagonal.

    Raises:
        UnknownNameError: If the curvature is unknown.
    """
    if name == "gauss-newton":
        return gauss_newton(model, task, learnt, weight_decay=weight_decay)
    if name in ("hessian", "hessian-of-loss"):
        of = "true-label" if name == "hessian" else loss
        return hessian(model, task, learnt, weight_decay=weight_decay, loss=of)
    raise UnknownNameError("curvature", name, ("gauss-newton", "hessian", "hessian-of-loss"))


def _without_curvature(loss: LossName, v: Vector) -> Direction:
    diagnostics = {
        "solver": "none",
        "converged": True,
        "indefinite": False,
        "residual": 0.0,
        "iterations": 0,
        "smallest_eigenvalue": None,
        "norm": vectors.norm(v),
        "note": "v itself: the limit of λ s for λ → ∞",
    }
    return Direction("none", math.inf, loss, v, diagnostics)


def _solved(name: CurvatureName, loss: LossName, damping: float, space: KrylovSpace) -> Direction:
    try:
        solution = space.solve(damping)
    except InputError as error:
        refused = {"converged": False, "indefinite": True, "note": str(error)}
        return Direction(name, damping, loss, None, refused)
    return Direction(name, damping, loss, solution.vector, solution.to_table())
