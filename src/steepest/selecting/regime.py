"""In which regime is the model: does the score still follow its uncertainty?

The gradient of the entropy vanishes for uniform predictions as well as for certain ones. While
a model is weak, its most uncertain samples are therefore ranked last by ``entropy-gradnorm``;
nothing in the scores themselves shows it. Two numbers do.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from steepest.errors import RegimeWarning
from steepest.strategies import Needs, Strategy
from steepest.strategies.algorithms import rank_correlation

INVERTED = -0.1
"""A rank correlation of score and entropy from which on the order counts as inverted."""

_LAST = -0.5
"""From which on the most uncertain samples do not merely come lower, but last."""


@dataclass(frozen=True)
class Regime:
    """The model's certainty, and its relation to the score.

    Attributes:
        entropy_ratio: Mean entropy of the predictions, as a share of log C.
        rank_correlation: Spearman's correlation of score and entropy; None if either is constant
            or samples have no score each.
        samples: The number of samples that both were measured on.
    """

    entropy_ratio: float
    rank_correlation: float | None
    samples: int

    @property
    def inverted(self) -> bool:
        """Whether the most uncertain samples come last."""
        return self.rank_correlation is not None and self.rank_correlation <= INVERTED


def diagnose(
    scores: npt.NDArray[np.float64] | None,
    entropies: npt.NDArray[np.float64] | None,
    classes: int,
) -> Regime | None:
    """Measure the regime of one selection.

    Args:
        scores: [N]; None if samples were chosen without a score for each.
        entropies: Entropy of each sample's prediction [N]; None if the model was not asked.
        classes: C.
    """
    if entropies is None:
        return None
    return Regime(
        entropy_ratio=float(entropies.mean() / math.log(classes)),
        rank_correlation=None if scores is None else rank_correlation(scores, entropies),
        samples=len(entropies),
    )


def describe_inversion(regime: Regime | None, strategy: Strategy) -> str | None:
    """Warn that the most uncertain samples come last, and suggest an alternative.

    Args:
        regime: Of one selection.
        strategy: Who chose.

    Returns:
        None if they do not, or if no gradient was measured: a weak model is then not the reason.
    """
    return _describe(regime, strategy.name) if Needs.GRADIENTS in strategy.needs else None


def warn_if_inverted(regime: Regime | None, strategy: Strategy) -> None:
    """Warn when a gradient norm ranks the most uncertain samples last."""
    said = describe_inversion(regime, strategy)
    if said is not None:
        warnings.warn(said, RegimeWarning, stacklevel=3)


def warn_of_inversion(regime: Regime | None, name: str) -> None:
    """Warn likewise of a strategy that measures gradients, where no more than its name is known."""
    said = _describe(regime, name)
    if said is not None:
        warnings.warn(said, RegimeWarning, stacklevel=3)


def _describe(regime: Regime | None, name: str) -> str | None:
    if regime is None or not regime.inverted:
        return None
    correlation = regime.rank_correlation or 0.0
    place = "last" if correlation <= _LAST else "somewhat lower than others"
    return (
        f"{name} ranks this model's most uncertain samples {place} (rank correlation with "
        f"entropy {correlation:+.2f}, mean entropy {regime.entropy_ratio:.0%} of its "
        "maximum): the model is still weak; use 'margin' or 'entropy' until it has learnt more"
    )
