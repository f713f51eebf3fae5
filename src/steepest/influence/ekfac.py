"""EK-FAC: the Fisher information as Kronecker factors per layer, with corrected eigenvalues."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from steepest.errors import InputError
from steepest.influence import vectors
from steepest.influence.blocks import Block
from steepest.influence.objective import check_amount
from steepest.influence.solution import Solution, StopWatch
from steepest.influence.vectors import Vector

_HEURISTIC = 0.1
"""Damping unless told otherwise, as a share of a layer's mean eigenvalue."""


@dataclass(frozen=True, eq=False)
class Factors:
    """The Fisher information of one layer, Q_S ⊗ Q_A · diag(Λ) · (Q_S ⊗ Q_A)ᵀ for each group.

    Attributes:
        block: The layer.
        inputs: Q_A, eigenvectors of the second moments of what goes in [G, I, I].
        slopes: Q_S, eigenvectors of the second moments of what comes back [G, O, O].
        values: Λ, the mean square of the gradient's entries in that basis [G, O, I].
    """

    block: Block
    inputs: Tensor
    slopes: Tensor
    values: Tensor

    def turned(self, matrix: Tensor) -> Tensor:
        """Return a matrix [G, O, I] in the eigenbasis."""
        return self.slopes.mT @ matrix.to(self.slopes) @ self.inputs

    def turned_back(self, matrix: Tensor) -> Tensor:
        """Return a matrix [G, O, I] of the eigenbasis as one of weights."""
        return self.slopes @ matrix @ self.inputs.mT


@dataclass(frozen=True, eq=False)
class EKFAC:
    """An approximate Fisher information of linear layers and convolutions, ready to be inverted.

    Attributes:
        factors: One for each layer.
        parameters: The parameters that take part, covered or not.
        excluded: Names of trainable parameters that are not covered; for them s is 0.
        weight_decay: Part of the objective, added to all eigenvalues.
        examples: How many examples it was fitted on.
        seconds: How long that took.
    """

    factors: tuple[Factors, ...]
    parameters: Vector
    excluded: tuple[str, ...]
    weight_decay: float
    examples: int
    seconds: float

    def solve(self, wanted: Vector, *, damping: float | None = None) -> Solution:
        """Return the inverse product, layer by layer in closed form.

        Args:
            wanted: v; entries of parameters that are not covered do not count.
            damping: λ; None takes a tenth of each layer's mean eigenvalue.

        Raises:
            InputError: If there is neither damping nor weight decay.
        """
        vectors.check_vector(wanted, self.parameters)
        watch = StopWatch()
        dampings = [self._damping(f, damping) for f in self.factors]
        if min(dampings) + self.weight_decay <= 0:
            raise InputError("EK-FAC has eigenvalues of 0: give damping above 0, or weight decay")
        found = vectors.zeros_like(wanted)
        for factors, added in zip(self.factors, dampings, strict=True):
            turned = factors.turned(factors.block.to_matrix(wanted))
            inverse = turned / (factors.values + self.weight_decay + added)
            found |= factors.block.from_matrix(factors.turned_back(inverse), wanted)
        mean = sum(dampings) / len(dampings)
        spread = f"damping {min(dampings):.3g} to {max(dampings):.3g}, by layer; "
        return Solution(
            vector=found,
            solver="ekfac",
            curvature="ekfac",
            damping=mean,
            effective_damping=mean + self.weight_decay,
            iterations=2,
            residuals=(),
            residual=None,
            converged=True,
            indefinite=False,
            smallest_eigenvalue=min(
                float(f.values.min()) + self.weight_decay + d
                for f, d in zip(self.factors, dampings, strict=True)
            ),
            seconds=self.seconds + watch.seconds(),
            excluded=self.excluded,
            note=(spread if damping is None else "") + f"factors of {self.examples} examples",
        )

    def product(self, vector: Vector, *, damping: float = 0.0) -> Vector:
        """Return the approximate matrix, damped, times a vector; 0 where it covers nothing."""
        vectors.check_vector(vector, self.parameters)
        found = vectors.zeros_like(vector)
        for factors in self.factors:
            turned = factors.turned(factors.block.to_matrix(vector))
            product = turned * (factors.values + self.weight_decay + damping)
            found |= factors.block.from_matrix(factors.turned_back(product), vector)
        return found

    def _damping(self, factors: Factors, damping: float | None) -> float:
        if damping is None:
            return _HEURISTIC * float(factors.values.mean())
        return check_amount("damping", damping)
