"""Rows of many features as the few numbers that a linear head can see of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from steepest.training.probes.logistic import Floats, Solution

_TINY = 1e-10


@dataclass(frozen=True, eq=False)
class Coordinates:
    """Centred and scaled rows, on axes that span them.

    The weights of a regularised head are combinations of the rows: N rows of D features are as
    good as N rows of N coordinates, whatever D is. Nothing is lost.

    Attributes:
        mean: Of the rows [D].
        scale: The root mean square length of the centred rows.
        rows: Coordinates [N, R].
        axes: Unit vectors [R, D]; None where rows have no more features than there are rows.
    """

    mean: Floats
    scale: float
    rows: Floats
    axes: Floats | None

    @classmethod
    def of(cls, features: Floats) -> Coordinates:
        """Find the coordinates of rows [N, D]."""
        mean = features.mean(axis=0)
        centred = features - mean
        scale = float(np.sqrt(np.square(centred).sum(axis=1).mean())) or 1.0
        centred /= scale
        if len(centred) > centred.shape[1]:
            return cls(mean, scale, centred, None)
        squares, vectors = np.linalg.eigh(centred @ centred.T)
        kept = squares > _TINY * max(float(squares[-1]), _TINY)
        lengths = np.sqrt(squares[kept])
        vectors = vectors[:, kept]
        return cls(mean, scale, vectors * lengths, (vectors / lengths).T @ centred)

    def weights(self, solution: Solution) -> Floats:
        """Return the weights [C, D] for centred and scaled rows."""
        return solution.weights if self.axes is None else solution.weights @ self.axes
