"""The whole matrix, for models small enough: slow and obviously right."""

from __future__ import annotations

import torch
from torch import Tensor

from steepest.core.progress import Progress, as_progress
from steepest.errors import InputError
from steepest.influence import vectors
from steepest.influence.curvature import Curvature
from steepest.influence.objective import check_amount
from steepest.influence.solution import Solution, StopWatch, join_notes
from steepest.influence.vectors import Vector

_MOST_PARAMETERS = 3000


def dense_matrix(curvature: Curvature, *, progress: bool | Progress = True) -> Tensor:
    """Return a curvature as a matrix [P, P] in double precision, column by column.

    Raises:
        InputError: If the model has too many parameters.
    """
    size = vectors.size(curvature.parameters)
    if size > _MOST_PARAMETERS:
        raise InputError(
            f"a dense matrix of {size} parameters is too large (limit {_MOST_PARAMETERS}): use "
            "solve_cg, or choose fewer layers"
        )
    columns: list[Tensor] = []
    with as_progress(progress).task("dense curvature", size) as step:
        for unit in torch.eye(size, dtype=torch.float64, device=curvature.objective.device):
            product = curvature.product(vectors.unflatten(unit, curvature.parameters))
            columns.append(vectors.flatten(product).double())
            step.advance()
    matrix = torch.stack(columns, dim=1)
    return (matrix + matrix.T) / 2


def solve_dense(
    curvature: Curvature,
    wanted: Vector,
    *,
    damping: float = 0.0,
    progress: bool | Progress = True,
) -> Solution:
    """Return s with (C + λI) s = v exactly, with the whole matrix.

    Args:
        curvature: C, weight decay included, of at most 3000 parameters.
        wanted: v.
        damping: λ.
        progress: Whether to show progress.

    Raises:
        InputError: If the model has too many parameters, or the matrix has no inverse.
    """
    check_amount("damping", damping)
    vectors.check_vector(wanted, curvature.parameters)
    watch = StopWatch()
    matrix = dense_matrix(curvature, progress=progress)
    flat = vectors.flatten(wanted).double()
    found, residual, smallest = solve_matrix(matrix, flat, damping)
    return Solution(
        vector=vectors.unflatten(found, wanted),
        solver="dense",
        curvature=curvature.name,
        damping=damping,
        effective_damping=damping + curvature.objective.weight_decay,
        iterations=len(flat),
        residuals=(),
        residual=residual,
        converged=True,
        indefinite=smallest <= 0,
        smallest_eigenvalue=smallest,
        seconds=watch.seconds(),
        excluded=curvature.objective.excluded,
        note=join_notes(curvature.note),
    )


def solve_matrix(matrix: Tensor, wanted: Tensor, damping: float) -> tuple[Tensor, float, float]:
    """Solve a symmetric system [P, P] and say how well.

    Returns:
        The solution [P], its relative residual, and the matrix's smallest eigenvalue, damped.

    Raises:
        InputError: If the damped matrix has no inverse.
    """
    damped = matrix + damping * torch.eye(len(matrix), dtype=matrix.dtype, device=matrix.device)
    values, directions = torch.linalg.eigh(damped)
    if not float(values.abs().min()) > 1e-14 * float(values.abs().max()):
        raise InputError("the curvature has no inverse: use weight decay, or damping above 0")
    found = directions @ ((directions.T @ wanted) / values)
    length = float(wanted.norm())
    residual = float((wanted - damped @ found).norm()) / length if length else 0.0
    return found, residual, float(values[0])
