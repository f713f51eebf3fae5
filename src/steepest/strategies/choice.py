"""What a strategy answers: which samples, in which order, and how much each was wanted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from steepest.errors import InputError, NonFiniteError


@dataclass(frozen=True, eq=False)
class Choice:
    """k samples of a pool, the most wanted first.

    Attributes:
        positions: Where they stand among the candidates [k]; distinct.
        scores: How much each was wanted when it was taken [k].
        values: The scores of all candidates [N], if the strategy gives one to each.
    """

    positions: npt.NDArray[np.intp]
    scores: npt.NDArray[np.float64]
    values: npt.NDArray[np.float64] | None = None


def checked(choice: Choice, candidates: int, k: int, strategy: str) -> Choice:
    """Return a choice that keeps the contract.

    Raises:
        InputError: If it is not k distinct candidates.
        NonFiniteError: If a score is NaN or infinite.
    """
    positions = np.asarray(choice.positions, dtype=np.intp)
    scores = np.asarray(choice.scores, dtype=np.float64)
    inside = positions.size == 0 or (positions.min() >= 0 and positions.max() < candidates)
    distinct = len(np.unique(positions)) == len(positions)
    if positions.shape != (k,) or scores.shape != (k,) or not inside or not distinct:
        raise InputError(f"strategy {strategy!r} did not choose {k} distinct samples of the pool")
    if not np.isfinite(scores).all():
        raise NonFiniteError(f"strategy {strategy!r} chose samples by scores that are not finite")
    return Choice(positions, scores, choice.values)


def in_order(positions: Sequence[int], scores: Sequence[float]) -> Choice:
    """Return a choice from plain lists."""
    return Choice(np.asarray(positions, dtype=np.intp), np.asarray(scores, dtype=np.float64))
