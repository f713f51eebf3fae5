"""An inverse product with all that is known of how it came about."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from steepest.influence import vectors
from steepest.influence.curvature import Curvature
from steepest.influence.vectors import Vector


@dataclass(frozen=True, eq=False)
class Solution:
    """s with (C + λI) s ≈ v, for a curvature C that includes weight decay.

    Attributes:
        vector: s, one tensor for each parameter.
        solver: The solver that computed it.
        curvature: The matrix C.
        damping: λ, what was added to the diagonal of C.
        effective_damping: λ and the weight decay together.
        iterations: Products with the whole matrix or with parts of it, as the note says.
        residuals: ‖v − (C + λI) s‖ / ‖v‖ on the way, where the solver knows it.
        residual: The same of the result, measured again; None where the matrix is not at hand.
        converged: Whether the residual came below what was requested; for closed forms True.
        indefinite: Whether C + λI was found to have an eigenvalue of 0 or below.
        smallest_eigenvalue: The smallest one of C + λI that was met; an upper bound of the
            smallest there is, exact for dense solvers; None if none was estimated.
        seconds: How long it took.
        excluded: Trainable parameters that take no part, for which s is 0 or has no entry.
        note: A remark; may be empty.
    """

    vector: Vector
    solver: str
    curvature: str
    damping: float
    effective_damping: float
    iterations: int
    residuals: tuple[float, ...]
    residual: float | None
    converged: bool
    indefinite: bool
    smallest_eigenvalue: float | None
    seconds: float
    excluded: tuple[str, ...] = ()
    note: str = ""

    @property
    def norm(self) -> float:
        """‖s‖."""
        return vectors.norm(self.vector)

    def to_table(self) -> dict[str, Any]:
        """Return everything but the vector as plain numbers and words, ready for JSON."""
        lists = {"residuals": list(self.residuals), "excluded": list(self.excluded)}
        table = {**vars(self), **lists, "norm": self.norm}
        del table["vector"]
        return table


class StopWatch:
    """Seconds since it was made."""

    def __init__(self) -> None:
        self._start = time.perf_counter()

    def seconds(self) -> float:
        """Return how long ago that was."""
        return time.perf_counter() - self._start


def relative_residual(
    curvature: Curvature, solution: Vector, wanted: Vector, damping: float
) -> float:
    """Return ‖v − (C + λI) s‖ / ‖v‖, by one product with the whole matrix."""
    reached = vectors.axpy(damping, solution, curvature.product(solution))
    length = vectors.norm(wanted)
    return vectors.norm(vectors.axpy(-1.0, reached, wanted)) / length if length else 0.0


def join_notes(*notes: str) -> str:
    """Return the notes that say something, as one."""
    return "; ".join(note for note in notes if note)
