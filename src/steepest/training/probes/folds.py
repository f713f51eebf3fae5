"""Parts of the labelled samples that are left out in turns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from steepest.core.seeds import SampleId, keyed_uniform
from steepest.training.probes.logistic import Integers


def deal_folds(y: Integers, ids: Sequence[SampleId], folds: int, seed: int) -> Integers:
    """Return the fold of each sample [N]; each class is spread over as many as it can be.

    Args:
        y: Classes [N].
        ids: Decide the draws, with the seed.
        folds: How many.
        seed: Of the draws.
    """
    draws = keyed_uniform(seed, "folds of a probe", ids)[:, 0]
    dealt = np.empty(len(y), dtype=np.int64)
    # Class after class, so that no fold gets all the remainders.
    dealt[np.lexsort((draws, y))] = np.arange(len(y)) % folds
    return dealt


def draw_part(y: Integers, ids: Sequence[SampleId], count: int, seed: int) -> Integers:
    """Return positions of about so many samples, of each class in its share, sorted."""
    parts = -(-len(y) // count)
    return np.flatnonzero(deal_folds(y, ids, parts, seed) == 0)
