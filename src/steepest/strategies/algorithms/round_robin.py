"""Groups that take turns."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def take_turns(sizes: npt.NDArray[np.intp], count: int) -> npt.NDArray[np.intp]:
    """Return whose turn it is, round by round, until so many turns were taken.

    In each round every group that has a member left gives one, in the order of the groups.

    Args:
        sizes: Members of each group [G].
        count: Turns; all members if there are fewer.

    Returns:
        Groups in order of turns [min(count, Σ sizes)].
    """
    groups = np.repeat(np.arange(len(sizes)), sizes)
    firsts = np.repeat(np.cumsum(sizes) - sizes, sizes)
    rounds = np.arange(len(groups)) - firsts
    turns: npt.NDArray[np.intp] = groups[np.lexsort((groups, rounds))[:count]]
    return turns
