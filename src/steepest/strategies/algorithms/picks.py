"""Result of a greedy or random choice of rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from steepest.errors import InputError


@dataclass(frozen=True, eq=False)
class Picks:
    """Rows that were picked one after another.

    Attributes:
        positions: Their positions [k], first pick first; distinct.
        scores: What each was picked for [k]: its distance from those before it, or its gain.
    """

    positions: npt.NDArray[np.intp]
    scores: npt.NDArray[np.float64]

    @classmethod
    def of(cls, positions: Sequence[int], scores: Sequence[float]) -> Picks:
        """Return picks from plain lists."""
        return cls(np.asarray(positions, dtype=np.intp), np.asarray(scores, dtype=np.float64))

    def __len__(self) -> int:
        return len(self.positions)


def check_count(k: int, points: int) -> None:
    """Refuse a number of picks that the rows do not allow.

    Raises:
        InputError: Saying the largest number.
    """
    if not 1 <= k <= points:
        raise InputError(f"k = {k}: pick at least 1 and at most all of the {points} points")
