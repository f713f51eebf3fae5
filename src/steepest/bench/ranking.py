"""Agreement of two scorings of one pool: order, top samples and values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from steepest.core.seeds import SampleId
from steepest.strategies.algorithms import rank_correlation, top_k
from steepest.strategies.algorithms.ranking import Values


@dataclass(frozen=True)
class Agreement:
    """Agreement of scores with others of the same samples.

    Attributes:
        spearman: Rank correlation; None if all scores are equal.
        top_count: How many count as chosen (k).
        top_common: How many of the k highest are among the other k highest.
        median_error: Median relative error.
        largest_error: Largest relative error.
    """

    spearman: float | None
    top_count: int
    top_common: int
    median_error: float
    largest_error: float

    @property
    def top_share(self) -> float:
        """The common part of the k highest."""
        return self.top_common / self.top_count


def compare_scores(
    found: Values, wanted: Values, ids: Sequence[SampleId], top: float, seed: int
) -> Agreement:
    """Compare scores with those that they should be.

    Args:
        found: Scores [N].
        wanted: What they should be [N].
        ids: Ids [N]; ties are broken by them, as in a selection.
        top: The share of the samples that counts as chosen; at least one sample is.
        seed: Seeds the draw among ties.
    """
    count = max(1, round(top * len(ids)))
    chosen = (set(top_k(values, ids, count, seed).tolist()) for values in (found, wanted))
    errors = relative_errors(found, wanted)
    return Agreement(
        rank_correlation(found, wanted),
        count,
        len(set.intersection(*chosen)),
        float(np.median(errors)),
        float(errors.max()),
    )


def relative_errors(found: Values, wanted: Values) -> Values:
    """Return |found − wanted| / |wanted| [N]; a zero that is met has no error."""
    errors: Values = np.abs(found - wanted) / np.maximum(np.abs(wanted), 1e-300)
    return errors
