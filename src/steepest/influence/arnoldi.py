"""The largest eigenvalues of a curvature and their inverse, by Arnoldi's (Lanczos') method."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from steepest.core.progress import Progress, as_progress
from steepest.influence import vectors
from steepest.influence.basis import empty_basis, outside_of
from steepest.influence.curvature import Curvature
from steepest.influence.objective import check_amount, check_count
from steepest.influence.solution import Solution, StopWatch, join_notes, relative_residual
from steepest.influence.vectors import Vector


@dataclass(frozen=True, eq=False)
class Eigenbasis:
    """Some eigenvalues of a curvature, largest magnitude first, and their eigenvectors.

    Attributes:
        curvature: Of which matrix.
        values: [K].
        directions: Orthonormal, flat [K, P].
        iterations: Products spent.
        smallest_eigenvalue: The smallest one met, kept or not.
        seconds: How long it took.
    """

    curvature: Curvature
    values: Tensor
    directions: Tensor
    iterations: int
    smallest_eigenvalue: float
    seconds: float

    def project(self, vector: Vector) -> Tensor:
        """Return a vector's coordinates in the basis [K]."""
        return self.directions @ vectors.flatten(vector).to(self.directions)

    def solve(self, wanted: Vector, *, damping: float = 0.0) -> Solution:
        """Return Σ_k e_k (e_k · v) / (λ_k + λ): the inverse product within the basis.

        What lies outside of it is dropped, where damping would keep most of it.
        """
        check_amount("damping", damping)
        vectors.check_vector(wanted, self.curvature.parameters)
        watch = StopWatch()
        values = self.values + damping
        flat = (self.project(wanted) / values) @ self.directions
        found = vectors.unflatten(flat, wanted)
        smallest = self.smallest_eigenvalue + damping
        indefinite = bool((values <= 0).any()) or smallest < -1e-6 * float(values.abs().max())
        objective = self.curvature.objective
        return Solution(
            vector=found,
            solver="arnoldi",
            curvature=self.curvature.name,
            damping=damping,
            effective_damping=damping + objective.weight_decay,
            iterations=self.iterations,
            residuals=(),
            residual=relative_residual(self.curvature, found, wanted, damping),
            converged=True,
            indefinite=indefinite,
            smallest_eigenvalue=smallest,
            seconds=self.seconds + watch.seconds(),
            excluded=objective.excluded,
            note=join_notes(
                f"within the {len(self.values)} largest of {self.iterations} eigenvalues",
                self.curvature.note,
            ),
        )


def fit_arnoldi(
    curvature: Curvature,
    *,
    iterations: int = 200,
    top_k: int | None = None,
    seed: int = 0,
    progress: bool | Progress = True,
) -> Eigenbasis:
    """Find the eigenvalues of largest magnitude and their eigenvectors.

    Every new direction is made orthogonal to all before it, twice. It takes ``iterations`` vectors
    of the size of the model in memory.

    Args:
        curvature: Of which matrix.
        iterations: Products to spend; no more than there are parameters are of use.
        top_k: How many eigenvalues to keep; None keeps all that are not 0 but for rounding.
        seed: Seeds the direction to start from.
        progress: Whether to show progress.

    Raises:
        InputError: If an argument does not fit, or the basis does not fit into memory.
    """
    size = vectors.size(curvature.parameters)
    count = min(check_count("iterations", iterations), size)
    kept = count if top_k is None else min(check_count("top_k", top_k), count)
    basis = empty_basis(count, vectors.flatten(curvature.parameters))
    watch = StopWatch()
    with as_progress(progress).task("Arnoldi", count) as step:
        small = torch.zeros(count, count, dtype=torch.float64)
        direction = _new_direction(basis[:0], curvature.parameters, seed, 0)
        for i in range(count):
            basis[i] = direction
            here = vectors.unflatten(direction, curvature.parameters)
            product = vectors.flatten(curvature.product(here))
            along = basis[: i + 1] @ product
            small[: i + 1, i] = small[i, : i + 1] = along.double().cpu()
            rest = outside_of(basis[: i + 1], product)
            length = float(rest.norm())
            # Nothing new is left where the directions so far are an invariant space.
            exhausted = length <= 100 * torch.finfo(basis.dtype).eps * float(product.norm())
            if exhausted and i + 1 < count:
                direction = _new_direction(basis[: i + 1], curvature.parameters, seed, i + 1)
            else:
                direction = rest / length if length else rest
            step.advance()
        values, turn = torch.linalg.eigh(small)
        order = values.abs().argsort(descending=True)[:kept]
        order = order[values[order].abs() > 1e3 * torch.finfo(basis.dtype).eps * values.abs().max()]
        directions = turn[:, order].T.to(basis) @ basis
    return Eigenbasis(
        curvature, values[order].to(basis), directions, count, float(values[0]), watch.seconds()
    )


def solve_arnoldi(
    curvature: Curvature,
    wanted: Vector,
    *,
    damping: float = 0.0,
    iterations: int = 200,
    top_k: int | None = None,
    seed: int = 0,
    progress: bool | Progress = True,
) -> Solution:
    """Return the inverse product within the space of the largest eigenvalues.

    For several vectors call ``fit_arnoldi`` once.

    Args:
        curvature: C, weight decay included.
        wanted: v.
        damping: λ.
        iterations: Products to spend.
        top_k: How many eigenvalues to keep; None keeps all that are not 0 but for rounding.
        seed: Seeds the direction to start from.
        progress: Whether to show progress.

    Raises:
        InputError: If an argument does not fit.
    """
    vectors.check_vector(wanted, curvature.parameters)
    basis = fit_arnoldi(curvature, iterations=iterations, top_k=top_k, seed=seed, progress=progress)
    return basis.solve(wanted, damping=damping)


def _new_direction(basis: Tensor, like: Vector, seed: int, number: int) -> Tensor:
    drawn = vectors.flatten(vectors.draw_normal(like, seed, "arnoldi", number))
    return torch.nn.functional.normalize(outside_of(basis, drawn), dim=0)
