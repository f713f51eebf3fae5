"""Conjugate gradients: the inverse product of a positive definite matrix, without the matrix."""

from __future__ import annotations

import torch

from steepest.core.progress import Progress, as_progress
from steepest.errors import InputError
from steepest.influence import vectors
from steepest.influence.curvature import Curvature
from steepest.influence.objective import check_amount, check_count
from steepest.influence.solution import Solution, StopWatch, join_notes, relative_residual
from steepest.influence.vectors import Vector


def solve_cg(
    curvature: Curvature,
    wanted: Vector,
    *,
    damping: float = 0.0,
    tolerance: float = 1e-3,
    most_iterations: int = 100,
    progress: bool | Progress = True,
) -> Solution:
    """Return s with (C + λI) s = v by conjugate gradients.

    Every iteration is one product over all examples of the curvature, which never change. A
    direction of negative curvature ends the search: beyond it the method means nothing.

    Args:
        curvature: C, weight decay included; ``gauss_newton`` for nets.
        wanted: v.
        damping: λ.
        tolerance: Stop once ‖v − (C + λI) s‖ / ‖v‖ is below.
        most_iterations: Stop after so many iterations in any case.
        progress: Whether to show progress.

    Raises:
        InputError: If an argument does not fit.
    """
    check_amount("damping", damping)
    check_count("most_iterations", most_iterations)
    if not 0 < tolerance < 1:
        raise InputError(f"tolerance is {tolerance!r}; give a number between 0 and 1")
    vectors.check_vector(wanted, curvature.parameters)
    watch = StopWatch()
    search = _Search(curvature, wanted, damping)
    with as_progress(progress).task("conjugate gradients", most_iterations) as step:
        for _ in range(most_iterations):
            if search.residuals[-1] <= tolerance or not search.go_on():
                break
            step.advance(note=f"residual {search.residuals[-1]:.1e}")
    residual = relative_residual(curvature, search.found, wanted, damping)
    return Solution(
        vector=search.found,
        solver="cg",
        curvature=curvature.name,
        damping=damping,
        effective_damping=damping + curvature.objective.weight_decay,
        iterations=len(search.residuals) - 1,
        residuals=tuple(search.residuals),
        residual=residual,
        # Rounding lets the recursion drift away from what it stands for.
        converged=residual <= 2 * tolerance and not search.indefinite,
        indefinite=search.indefinite,
        smallest_eigenvalue=search.smallest_ritz_value(),
        seconds=watch.seconds(),
        excluded=curvature.objective.excluded,
        note=join_notes(search.note, curvature.note),
    )


class _Search:
    """One search, iteration by iteration."""

    def __init__(self, curvature: Curvature, wanted: Vector, damping: float) -> None:
        self._curvature, self._damping = curvature, damping
        self.found = vectors.zeros_like(wanted)
        self._rest, self._direction = wanted, wanted
        self._square = vectors.dot(wanted, wanted)
        self._length = self._square**0.5
        self.residuals = [1.0 if self._length else 0.0]
        self._steps: list[float] = []
        self._turns: list[float] = []
        self._negative: float | None = None
        self.indefinite = False
        self.note = ""

    def go_on(self) -> bool:
        """Take one step and return whether there may be another."""
        direction = self._direction
        product = vectors.axpy(self._damping, direction, self._curvature.product(direction))
        curved, square = vectors.dot(direction, product), vectors.dot(direction, direction)
        if curved <= 0:
            self.indefinite, self._negative = True, curved / square
            self.note = (
                "a direction of negative curvature was met: use gauss_newton, or more damping"
            )
            return False
        length = self._square / curved
        self.found = vectors.axpy(length, direction, self.found)
        self._rest = vectors.axpy(-length, product, self._rest)
        square = vectors.dot(self._rest, self._rest)
        turn = square / self._square
        self._direction = vectors.axpy(turn, direction, self._rest)
        self._square = square
        self._steps.append(length)
        self._turns.append(turn)
        self.residuals.append(square**0.5 / self._length)
        return True

    def smallest_ritz_value(self) -> float | None:
        """Return the smallest eigenvalue seen: the steps are those of Lanczos' method."""
        if not self._steps:
            return self._negative
        count = len(self._steps)
        matrix = torch.zeros(count, count, dtype=torch.float64)
        for i, length in enumerate(self._steps):
            matrix[i, i] = 1 / length
            if i:
                matrix[i, i] += self._turns[i - 1] / self._steps[i - 1]
                beside = self._turns[i - 1] ** 0.5 / self._steps[i - 1]
                matrix[i, i - 1] = matrix[i - 1, i] = beside
        smallest = float(torch.linalg.eigvalsh(matrix)[0])
        return smallest if self._negative is None else min(smallest, self._negative)
