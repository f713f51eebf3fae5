"""Top samples of a ranking, and the overlap of two unrelated rankings."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from steepest.core.seeds import SampleId
from steepest.errors import InputError, NonFiniteError
from steepest.strategies.algorithms import top_k
from steepest.strategies.algorithms.ranking import Values


@dataclass(frozen=True)
class Chance:
    """Overlap of two unrelated choices of K out of R samples.

    Attributes:
        mean: K² / R.
        sd: Standard deviation of the hypergeometric distribution.
    """

    mean: float
    sd: float


def chance_overlap(k: int, candidates: int) -> Chance:
    """Return how many samples two choices share that have nothing to do with each other.

    Args:
        k: Samples in each choice, K.
        candidates: Samples to choose from, R.

    Raises:
        InputError: If K samples cannot be chosen out of R.
    """
    if not 1 <= k <= candidates:
        raise InputError(f"{k} of {candidates} samples cannot be chosen: give 1 up to {candidates}")
    share = k / candidates
    # Drawing without replacement: nothing varies once all samples are drawn.
    left = (candidates - k) / max(1, candidates - 1)
    return Chance(mean=k * k / candidates, sd=math.sqrt(k * share * (1 - share) * left))


def highest(values: Values, ids: Sequence[SampleId], k: int, seed: int) -> frozenset[SampleId]:
    """Return the ids of the k highest values; ties are broken by a draw keyed by id.

    Raises:
        InputError: If there are not as many ids as values, or fewer than k.
        NonFiniteError: If a value is NaN or infinite.
    """
    if len(values) != len(ids):
        raise InputError(f"{len(values)} values for {len(ids)} samples: give one for each")
    chance_overlap(k, len(ids))
    if not np.isfinite(values).all():
        raise NonFiniteError("a value to rank by is NaN or infinite: look at the model's outputs")
    return frozenset(ids[int(row)] for row in top_k(values, ids, k, seed))
