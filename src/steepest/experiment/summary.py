"""Summary of a comparison as plain numbers, ready for JSON."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Literal

from steepest.experiment.common_choices import CommonChoices
from steepest.experiment.significance import PairedTest

Measure = Literal["aubc", "final_value"]
"""Quantities in which strategies are compared."""


@dataclass(frozen=True)
class Spread:
    """A value per seed: mean, standard deviation (None for one seed) and the values [S]."""

    mean: float
    sd: float | None
    values: tuple[float, ...]


@dataclass(frozen=True)
class Curve:
    """Mean of the metric and its confidence interval at each budget, all [B]."""

    budgets: tuple[int, ...]
    mean: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]


@dataclass(frozen=True)
class LabelsSaved:
    """Labels saved on the way to the baseline's final value.

    Means are over the seeds that reached it, and None if none did. Where not all did they are of
    the best seeds alone, so tables and sentences leave them out: read them with ``reached``.

    Attributes:
        mean: Mean of the labels saved: what the baseline needed less what the strategy needed.
        reached: How many seeds reached it.
        values: Labels saved by seed [S], None where it was not reached.
        needed: Mean of the labels that the strategy needed.
        baseline_needed: Mean of the labels that the baseline itself needed with the same seeds.
    """

    mean: float | None
    reached: int
    values: tuple[float | None, ...]
    needed: float | None = None
    baseline_needed: float | None = None


@dataclass(frozen=True)
class StrategySummary:
    """One strategy over the seeds that count for it.

    Attributes:
        strategy: Its name.
        n: How many seeds count for it.
        seeds: Those seeds: complete for it and for the baseline; for the baseline, and without
            one, all that are complete.
        curve: Mean of the metric with its band.
        aubc: Normalised area under the budget curve.
        final_value: The metric at the last budget.
        labels_saved: Against the baseline; None for the baseline and without one.
        training_seconds: Training time of a whole run, None if it was not recorded.
        scoring_seconds: Scoring time of a whole run, None if it was not recorded.
        auxiliary_seconds: Time of training for the strategy's sake, of a whole run; None if it
            takes none.
        scoring_peak_bytes: Largest memory of any scoring, None if it was not recorded.
    """

    strategy: str
    n: int
    seeds: tuple[int, ...]
    curve: Curve
    aubc: Spread
    final_value: Spread
    labels_saved: LabelsSaved | None
    training_seconds: Spread | None
    scoring_seconds: Spread | None
    auxiliary_seconds: Spread | None
    scoring_peak_bytes: int | None


@dataclass(frozen=True)
class Contrast:
    """One strategy against the baseline in one measure, with p-values after Holm.

    The test is over the strategy's seeds, so ``test.n`` may differ between strategies.
    """

    strategy: str
    baseline: str
    measure: Measure
    test: PairedTest
    t_p_holm: float | None
    wilcoxon_p_holm: float | None


@dataclass(frozen=True)
class Penalty:
    """The penalty matrix: the share of budgets at which the row beats the column.

    Each pair is judged on the seeds that both have, whatever the baseline has.

    Attributes:
        strategies: Names of rows and columns [K].
        matrix: ``matrix[i][j]`` is how often row i beats column j [K, K]; None for a pair with
            fewer than two seeds in common, which is not judged. The diagonal is 0.
        n: How many seeds row and column have in common [K, K].
        wins: Mean of each row over the pairs that were judged, None if none was; higher is
            better [K].
        losses: Mean of each column, likewise; lower is better [K].
        budgets: How many budgets were judged.
        alpha: Level of each paired t-test.
    """

    strategies: tuple[str, ...]
    matrix: tuple[tuple[float | None, ...], ...]
    n: tuple[tuple[int, ...], ...]
    wins: tuple[float | None, ...]
    losses: tuple[float | None, ...]
    budgets: int
    alpha: float


@dataclass(frozen=True)
class Summary:
    """Every number of a comparison.

    Attributes:
        name: What the comparison is called.
        metric: Key of the metric that all of it is about; higher is better.
        n: How many seeds count for every strategy. Statistics of a strategy rest on its own
            seeds, of which there may be more: see ``counts``.
        seeds: Those seeds that count for every strategy.
        runs_complete: How many runs have come to their end.
        runs_expected: How many were asked for.
        baseline: The strategy others are held against, None without a comparison.
        confidence: Level of the bands and intervals.
        strategies: One entry per strategy with a seed that counts; a strategy that has no
            complete seed in common with the baseline is left out.
        contrasts: Tests against the baseline; Holm's family is all strategies of one measure.
        penalty: None without a pair of strategies that has two seeds, or with one budget.
        common: What strategies chose in common; None without a pair that has a seed in common.
    """

    name: str
    metric: str
    n: int
    seeds: tuple[int, ...]
    runs_complete: int
    runs_expected: int
    baseline: str | None
    confidence: float
    strategies: tuple[StrategySummary, ...]
    contrasts: tuple[Contrast, ...]
    penalty: Penalty | None
    common: CommonChoices | None = None

    @property
    def counts(self) -> tuple[int, ...]:
        """Number of seeds of each strategy [K]."""
        return tuple(entry.n for entry in self.strategies)

    @property
    def ragged(self) -> bool:
        """Whether the strategies have different numbers of seeds."""
        return len(set(self.counts)) > 1

    def to_dict(self) -> dict[str, Any]:
        """Return plain dicts, tuples and numbers that JSON can hold."""
        return dataclasses.asdict(self)
