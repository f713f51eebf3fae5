"""The largest eigenvalue of a curvature, by power iteration."""

from __future__ import annotations

from steepest.influence import vectors
from steepest.influence.curvature import Curvature


def largest_eigenvalue(curvature: Curvature, *, iterations: int = 20, seed: int = 0) -> float:
    """Return an estimate of the eigenvalue of largest magnitude, always from below.

    Args:
        curvature: Of which matrix.
        iterations: Products to spend.
        seed: Seeds the direction to start from.
    """
    direction = vectors.draw_normal(curvature.parameters, seed, "power iteration")
    value = 0.0
    for _ in range(iterations):
        direction = vectors.scaled(1 / vectors.norm(direction), direction)
        product = curvature.product(direction)
        before, value = value, vectors.norm(product)
        if value == 0 or abs(value - before) <= 1e-3 * value:
            break
        direction = product
    return value
