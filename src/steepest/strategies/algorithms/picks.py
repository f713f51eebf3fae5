"""Result of a choice by distances."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from steepest.errors import InputError


@dataclass(frozen=True, eq=False)
class Picks:
    """Points that were picked one after another.

    Attributes:
        positions: Positions among the points [k], first pick first; distinct.
        distances: How far each was from everything picked before it [k].
    """

    positions: npt.NDArray[np.intp]
    distances: npt.NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.positions)


def check_count(k: int, points: int) -> None:
    """Refuse a number of picks that the points do not allow.

    Raises:
        InputError: Saying the largest number.
    """
    if not 1 <= k <= points:
        raise InputError(f"k = {k}: pick at least 1 and at most all of the {points} points")
