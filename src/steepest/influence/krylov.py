"""Krylov spaces: inverse products for several dampings, and the largest eigenvalues (Arnoldi).

(C + λI) s = v has the same Krylov space of C and v for every λ. One basis, of as many products as
one search by conjugate gradients would take, therefore serves all of them: for a positive definite
matrix the result after m products is that of m steps of conjugate gradients.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from steepest.core.memory import free_bytes
from steepest.core.progress import Progress, as_progress
from steepest.errors import InputError
from steepest.influence import vectors
from steepest.influence.curvature import Curvature
from steepest.influence.objective import check_amount, check_count
from steepest.influence.solution import Solution, StopWatch, join_notes, relative_residual
from steepest.influence.vectors import Vector

_SHARE = 0.8
"""Share of the free memory that the basis may take."""
_SINGULAR = 1e-12
"""Smallest over largest eigenvalue below which a matrix counts as having no inverse."""


def empty_basis(count: int, like: Tensor) -> Tensor:
    """Return room for vectors [count, P] like one of them [P].

    Raises:
        InputError: If they do not fit into memory.
    """
    if count * len(like) * like.itemsize > _SHARE * free_bytes(like.device):
        raise InputError(
            f"{count} vectors of {len(like)} entries do not fit into memory: use fewer iterations"
        )
    return torch.zeros(count, len(like), dtype=like.dtype, device=like.device)


def outside_of(basis: Tensor, vector: Tensor) -> Tensor:
    """Return the part of a vector [P] that is orthogonal to a basis [M, P]."""
    # Once is not enough in floating point; twice is.
    for _ in range(2):
        vector = vector - basis.T @ (basis @ vector)
    return vector


@dataclass(frozen=True, eq=False)
class KrylovSpace:
    """The space of v, C v, C² v …, in which (C + λI) s = v is solved for any λ.

    Attributes:
        curvature: C, weight decay included.
        wanted: v.
        basis: Orthonormal, flat [M, P]; the first is v but for its length.
        small: C within the space [M, M].
        beyond: How far C leads out of it.
        tolerance: Of the residual.
        seconds: How long it took.
    """

    curvature: Curvature
    wanted: Vector
    basis: Tensor
    small: Tensor
    beyond: float
    tolerance: float
    seconds: float

    def residual(self, damping: float) -> float:
        """Return ‖v − (C + λI) s‖ / ‖v‖ as the space itself tells; infinite without an inverse."""
        try:
            return self.beyond * abs(float(self._coordinates(damping)[-1]))
        except InputError:
            return math.inf

    def solve(self, damping: float) -> Solution:
        """Return s with (C + λI) s = v, and its residual, measured again by one more product.

        Raises:
            InputError: If the damping is no number of at least 0, or there is no inverse.
        """
        check_amount("damping", damping)
        watch = StopWatch()
        smallest: float | None = None
        found = vectors.zeros_like(self.wanted)
        if len(self.basis):
            inside = self._coordinates(damping) * vectors.norm(self.wanted)
            found = vectors.unflatten(inside.to(self.basis) @ self.basis, self.wanted)
            smallest = float(torch.linalg.eigvalsh(self.small)[0]) + damping
        residual = relative_residual(self.curvature, found, self.wanted, damping)
        indefinite = smallest is not None and smallest <= 0
        objective = self.curvature.objective
        return Solution(
            vector=found,
            solver="krylov",
            curvature=self.curvature.name,
            damping=damping,
            effective_damping=damping + objective.weight_decay,
            iterations=len(self.basis),
            residuals=(),
            residual=residual,
            converged=residual <= 2 * self.tolerance and not indefinite,
            indefinite=indefinite,
            smallest_eigenvalue=smallest,
            seconds=self.seconds + watch.seconds(),
            excluded=objective.excluded,
            note=join_notes(
                f"one space of {len(self.basis)} products for all dampings", self.curvature.note
            ),
        )

    def _coordinates(self, damping: float) -> Tensor:
        """Return (T + λI)⁻¹ e₁ [M], the solution for a v of length 1."""
        damped = self.small + damping * torch.eye(len(self.small), dtype=torch.float64)
        values, turn = torch.linalg.eigh(damped)
        if not float(values.abs().min()) > _SINGULAR * float(values.abs().max()):
            raise InputError(f"C + {damping} · I has no inverse: use more damping")
        found: Tensor = turn @ (turn[0] / values)
        return found


def span_krylov(
    curvature: Curvature,
    wanted: Vector,
    dampings: Sequence[float],
    *,
    tolerance: float = 1e-3,
    most_iterations: int = 50,
    progress: bool | Progress = True,
) -> KrylovSpace:
    """Return the space in which (C + λI) s = v is solved for several λ.

    Every new direction is made orthogonal to all before it, twice. The basis takes
    ``most_iterations`` vectors of the size of the model in memory.

    Args:
        curvature: C, weight decay included.
        wanted: v.
        dampings: λ that it has to be large enough for, each at least 0.
        tolerance: Stop once ‖v − (C + λI) s‖ / ‖v‖ is below for all of them.
        most_iterations: Products to spend at most.
        progress: Whether to show progress.

    Raises:
        InputError: If an argument does not fit, or the basis does not fit into memory.
    """
    for damping in dampings:
        check_amount("damping", damping)
    check_count("most_iterations", most_iterations)
    if not 0 < tolerance < 1:
        raise InputError(f"tolerance is {tolerance!r}; give a number between 0 and 1")
    vectors.check_vector(wanted, curvature.parameters)
    watch = StopWatch()
    flat = vectors.flatten(wanted)
    length = float(flat.double().norm())
    most = min(most_iterations, len(flat)) if length else 0
    basis = empty_basis(most, flat)
    small = torch.zeros(most, most, dtype=torch.float64)
    space = KrylovSpace(curvature, wanted, basis[:0], small[:0, :0], 0.0, tolerance, 0.0)
    direction = flat / length if length else flat
    with as_progress(progress).task("inverse products", most) as step:
        for i in range(most):
            basis[i] = direction
            product = vectors.flatten(curvature.product(vectors.unflatten(direction, wanted)))
            small[: i + 1, i] = small[i, : i + 1] = (basis[: i + 1] @ product).double().cpu()
            rest = outside_of(basis[: i + 1], product)
            beyond = float(rest.double().norm())
            space = KrylovSpace(
                curvature, wanted, basis[: i + 1], small[: i + 1, : i + 1], beyond, tolerance,
                watch.seconds(),
            )  # fmt: skip
            step.advance()
            # Nothing new is left where the space is invariant: the solution is exact there.
            invariant = beyond <= 100 * torch.finfo(flat.dtype).eps * float(product.norm())
            if invariant or all(space.residual(damping) <= tolerance for damping in dampings):
                break
            direction = rest / beyond
    return space


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
