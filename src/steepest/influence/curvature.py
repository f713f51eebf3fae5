"""Curvature of an objective as a product with vectors; no matrix is built."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from torch import Tensor

from steepest.influence import vectors
from steepest.influence.measuring import FirstThatWorks, in_parts, measuring
from steepest.influence.objective import Objective
from steepest.influence.vectors import Vector
from steepest.modules.batches import Inputs


class Curvature(ABC):
    """A symmetric matrix of the size of the parameters, weight decay on its diagonal included.

    Products are sums over the objective's examples, which never change: every product is one with
    the same matrix.

    Args:
        objective: Whose curvature it is.

    Attributes:
        name: What it is called.
        objective: As given.
    """

    name: ClassVar[str]

    def __init__(self, objective: Objective) -> None:
        self.objective = objective
        self._ways = FirstThatWorks("forward over reverse", "double backward")

    @property
    def parameters(self) -> Vector:
        """The parameters whose space it acts on."""
        return self.objective.parameters

    @property
    def note(self) -> str:
        """Note on products that are computed in an unusual way; otherwise empty."""
        return self._ways.describe()

    def product(self, vector: Vector, rows: Tensor | None = None) -> Vector:
        """Return the matrix times a vector.

        Args:
            vector: One tensor for each parameter.
            rows: Take the mean over these examples alone; None for all of them.

        Raises:
            InputError: If the vector does not fit.
            NonFiniteError: If it is not finite.
            ModelError: If the model cannot be differentiated twice.
        """
        vectors.check_vector(vector, self.parameters)
        count = len(self.objective) if rows is None else len(rows)
        total = vectors.zeros_like(self.parameters)

        def on_batch(inputs: Inputs, targets: Tensor | None) -> Vector:
            return self._ways(
                lambda: self._forward_over_reverse(inputs, targets, vector),
                lambda: self._double_backward(inputs, targets, vector),
            )

        with measuring(self.objective.model):
            for inputs, targets in self.objective.batches(rows):
                for part in in_parts(on_batch, inputs, targets):
                    vectors.add_in_place(total, part)
        mean = vectors.scaled(1 / count, total)
        return vectors.axpy(self.objective.weight_decay, vector, mean)

    @abstractmethod
    def _forward_over_reverse(
        self, inputs: Inputs, targets: Tensor | None, vector: Vector
    ) -> Vector:
        """Return the product for the sum over one batch."""

    @abstractmethod
    def _double_backward(self, inputs: Inputs, targets: Tensor | None, vector: Vector) -> Vector:
        """Return the same for models with a function that knows no forward derivative."""
