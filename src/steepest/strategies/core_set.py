"""Core-set: k-centre in the space of features (Sener and Savarese, 2018)."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import ClassVar, Literal

from steepest.errors import SettingWarning
from steepest.strategies.algorithms.k_centre import count_outliers, k_centre
from steepest.strategies.algorithms.k_centre_exact import check_size, k_centre_exact
from steepest.strategies.base import Needs, Strategy, strategy
from steepest.strategies.choice import Choice
from steepest.strategies.feature_rows import feature_rows, labelled_rows
from steepest.strategies.view import PoolView

Method = Literal["greedy", "exact"]


@strategy("core-set")
@dataclass(frozen=True)
class CoreSet(Strategy):
    """Samples that leave no other one far from a labelled sample.

    The k samples sought make the largest distance of any sample to its nearest labelled one as
    small as can be. Greedily, one after another:

        score(x) = distance of the feature z(x) to the nearest labelled or chosen sample

    which leaves at most twice the distance of the best choice. Without labelled samples the first
    one is nearest the mean.

    Public versions of the exact method search over *squared* distances from half the greedy one,
    where a quarter is the bound, and forbid the outliers that the article allows; here the search
    is over distances, from zero, and ``outliers`` is an option of both methods.

    Attributes:
        method: ``"greedy"``, or ``"exact"``: a mixed-integer programme for at most 2000
            candidates.
        outliers: The share of candidates that need not be near a labelled sample (the article
            takes 0.0001). The greedy method leaves out those farthest from the labelled ones at the
            start, which can be all of a class that has no label yet.
    """

    needs: ClassVar[Needs] = Needs.FEATURES | Needs.LABELLED

    method: Method = "greedy"
    outliers: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        count_outliers(self.outliers, 1)

    def choose(self, pool: PoolView, k: int) -> Choice:
        """Return k samples, the farthest first."""
        if self.method == "exact":
            check_size(len(pool))
        points = feature_rows(pool, self.name).to(pool.device)
        known = labelled_rows(pool, self.name, points)
        if self.method == "exact":
            found = k_centre_exact(points, k, centres=known, outliers=self.outliers)
            picks = found.picks
            if not found.proved:
                warnings.warn(
                    "core-set: the exact search was cut short, so that a better choice may exist: "
                    "choose from fewer candidates by subset, or use method='greedy'",
                    SettingWarning,
                    stacklevel=2,
                )
        else:
            picks = k_centre(
                points, k, centres=known, outliers=self.outliers, progress=pool.progress
            )
        return Choice(picks.positions, picks.scores)
