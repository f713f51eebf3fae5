"""The k highest scores."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from steepest.seeds import SampleId, keyed_uniform


def top_k(
    values: npt.NDArray[np.float64], ids: Sequence[SampleId], k: int, seed: int
) -> npt.NDArray[np.intp]:
    """Return the positions of the k highest values, best first.

    Ties are broken by a draw keyed by sample id: the same ids win in any order of the pool.

    Args:
        values: Scores [N].
        ids: Ids [N].
        k: How many.
        seed: Seeds the draw.

    Returns:
        Positions [k].
    """
    ties = keyed_uniform(seed, "ties", ids)[:, 0]
    return np.lexsort((ties, -values))[:k]


def random_subset(
    ids: Sequence[SampleId], size: int, seed: int, purpose: str = "subset"
) -> npt.NDArray[np.intp]:
    """Return the positions of a uniform subset without replacement, in pool order.

    Args:
        ids: Ids [N].
        size: How many; all if there are fewer.
        seed: Seeds the draw, which is keyed by sample id.
        purpose: Keeps draws for different ends apart.

    Returns:
        Positions [min(size, N)].
    """
    draws = keyed_uniform(seed, purpose, ids)[:, 0]
    return np.sort(np.argsort(draws, kind="stable")[:size])
