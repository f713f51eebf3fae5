"""The paper's two schemes on real models: are they one function?"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import nn

from steepest.core.progress import Progress
from steepest.influence import Source
from steepest.influence.functional_model import BATCH_SIZE, plain
from steepest.paper.analyses.sample_norms import sample_norms
from steepest.strategies.algorithms.ranking import Values, rank_correlation
from steepest.tasks.base import Losses


@dataclass(frozen=True)
class SchemeIdentity:
    """Difference of expected-gradnorm and entropy-gradnorm in double precision.

    Attributes:
        samples: N.
        largest_difference: Of a sample's two norms, in absolute terms.
        relative_difference: The same as a share of the largest norm.
        rank_correlation: Spearman's; None if all norms are equal.
        moved: Samples that the two rank differently. Two whose norms differ by less than rounding
            may change places.
        same_order: Whether none did.
        largest_norm: Of the entropy scheme.
    """

    samples: int
    largest_difference: float
    relative_difference: float
    rank_correlation: float | None
    moved: int
    same_order: bool
    largest_norm: float


def compare_schemes(
    model: nn.Module,
    task: Losses,
    pool: Source,
    *,
    batch_size: int = BATCH_SIZE,
    progress: Progress | None = None,
) -> SchemeIdentity:
    """Compare the gradient norms of the expected loss and of the entropy.

    For plain cross-entropy Σ_i p_i (−log p_i) is the entropy, and the two are one function. For
    other training losses, such as smoothed or weighted ones, they are not.

    Args:
        model: Left unchanged; a copy of it is run in double precision.
        task: Whose expected loss is meant.
        pool: N samples; no targets are needed.
        batch_size: Samples in flight.
        progress: Updated after each batch.
    """
    exact = copy.deepcopy(plain(model)).double()
    norms = sample_norms(
        exact, task, pool, ("entropy", "expected"), ("l2",), batch_size=batch_size,
        progress=progress,
    )  # fmt: skip
    entropy, expected = norms["entropy", "l2"], norms["expected", "l2"]
    moved = int((_order(entropy) != _order(expected)).sum())
    difference = float(np.abs(entropy - expected).max())
    top = float(entropy.max())
    return SchemeIdentity(
        samples=len(entropy),
        largest_difference=difference,
        relative_difference=difference / top if top else 0.0,
        rank_correlation=rank_correlation(entropy, expected),
        moved=moved,
        same_order=moved == 0,
        largest_norm=top,
    )


def _order(values: Values) -> np.ndarray[Any, np.dtype[np.intp]]:
    return np.argsort(-values, kind="stable")
