"""All numbers of a comparison in one frozen summary; the formulas stand beside it.

Curves are in ``steepest.experiment.curves``, tests in ``steepest.experiment.significance``; both
are at hand here too.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from steepest.experiment.curves import (
    Band,
    aubc,
    labels_saved,
    labels_to_reach,
    mean_and_band,
)
from steepest.experiment.outcomes import Comparison, Run
from steepest.experiment.significance import (
    PairedTest,
    holm,
    paired_tests,
    penalty_matrix,
    smallest_wilcoxon_p,
)

__all__ = [
    "Band",
    "Contrast",
    "Curve",
    "LabelsSaved",
    "Measure",
    "PairedTest",
    "Penalty",
    "Spread",
    "StrategySummary",
    "Summary",
    "aubc",
    "holm",
    "labels_saved",
    "labels_to_reach",
    "mean_and_band",
    "paired_tests",
    "penalty_matrix",
    "smallest_wilcoxon_p",
    "summarise",
]

Floats = npt.NDArray[np.float64]

Measure = Literal["aubc", "final_value"]
"""What strategies are held against each other in."""

CONFIDENCE = 0.95
ALPHA = 0.05


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

    Attributes:
        mean: Mean over the seeds that reached it, None if none did. Seeds that did not reach
            it are not in the mean, so read it together with ``reached``.
        reached: How many seeds reached it.
        values: Labels saved by seed [S], None where it was not reached.
    """

    mean: float | None
    reached: int
    values: tuple[float | None, ...]


@dataclass(frozen=True)
class StrategySummary:
    """One strategy over the paired seeds.

    Attributes:
        strategy: Its name.
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
    """One strategy against the baseline in one measure, with p-values after Holm."""

    strategy: str
    baseline: str
    measure: Measure
    test: PairedTest
    t_p_holm: float | None
    wilcoxon_p_holm: float | None


@dataclass(frozen=True)
class Penalty:
    """The penalty matrix: the share of budgets at which the row beats the column.

    Attributes:
        strategies: Names of rows and columns [K].
        matrix: ``matrix[i][j]`` is how often row i beats column j [K, K].
        wins: Mean of each row over the others; higher is better [K].
        losses: Mean of each column over the others; lower is better [K].
        budgets: How many budgets were judged.
        alpha: Level of each paired t-test.
    """

    strategies: tuple[str, ...]
    matrix: tuple[tuple[float, ...], ...]
    wins: tuple[float, ...]
    losses: tuple[float, ...]
    budgets: int
    alpha: float


@dataclass(frozen=True)
class Summary:
    """Every number of a comparison.

    Attributes:
        name: What the comparison is called.
        metric: Key of the metric that all of it is about; higher is better.
        n: Seeds the statistics rest on: those complete for all compared strategies.
        seeds: Those seeds.
        runs_complete: How many runs have come to their end.
        runs_expected: How many were asked for.
        baseline: The strategy others are held against, None without a comparison.
        confidence: Level of the bands and intervals.
        strategies: One entry per compared strategy; empty as long as ``n`` is 0.
        contrasts: Tests against the baseline; Holm's family is all strategies of one measure.
        penalty: None below two strategies, seeds or budgets.
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

    def to_dict(self) -> dict[str, Any]:
        """Return plain dicts, tuples and numbers that JSON can hold."""
        return dataclasses.asdict(self)


def summarise(comparison: Comparison) -> Summary:
    """Compute every number of a comparison from its paired, complete runs."""
    budgets, curves = comparison.paired_curves()
    baseline = comparison.baseline
    strategies = tuple(
        _strategy(
            comparison.paired_runs(name), budgets, curves, None if name == baseline else baseline
        )
        for name in curves
    )
    return Summary(
        name=comparison.name,
        metric=comparison.metric,
        n=len(comparison.paired_seeds),
        seeds=comparison.paired_seeds,
        runs_complete=sum(run.complete for run in comparison.runs.values()),
        runs_expected=len(comparison.runs),
        baseline=baseline,
        confidence=CONFIDENCE,
        strategies=strategies,
        contrasts=_contrasts(strategies, baseline),
        penalty=_penalty(curves),
    )


def _strategy(
    runs: tuple[Run, ...], budgets: Floats, curves: dict[str, Floats], baseline: str | None
) -> StrategySummary:
    own = curves[runs[0].strategy]
    band = mean_and_band(own, CONFIDENCE)
    return StrategySummary(
        strategy=runs[0].strategy,
        curve=Curve(
            budgets=tuple(int(b) for b in budgets),
            mean=tuple(band.mean.tolist()),
            low=tuple(band.low.tolist()),
            high=tuple(band.high.tolist()),
        ),
        aubc=_spread(aubc(budgets, curve) for curve in own),
        final_value=_spread(own[:, -1].tolist()),
        labels_saved=None if baseline is None else _saved(budgets, own, curves[baseline]),
        training_seconds=_seconds(runs, "training"),
        scoring_seconds=_seconds(runs, "scoring"),
        auxiliary_seconds=_seconds(runs, "auxiliary"),
        scoring_peak_bytes=max(_recorded(runs, "scoring", "peak_bytes"), default=None),
    )


def _spread(values: Iterable[float]) -> Spread:
    kept = tuple(float(value) for value in values)
    sd = float(np.std(kept, ddof=1)) if len(kept) > 1 else None
    return Spread(float(np.mean(kept)), sd, kept)


def _saved(budgets: Floats, own: Floats, baseline: Floats) -> LabelsSaved:
    values = labels_saved(budgets, own, baseline)
    reached = [value for value in values if value is not None]
    mean = float(np.mean(reached)) if reached else None
    return LabelsSaved(mean, len(reached), values)


def _seconds(runs: tuple[Run, ...], stage: str) -> Spread | None:
    totals = [_recorded((run,), stage, "seconds") for run in runs]
    return _spread(sum(total) for total in totals) if all(totals) else None


def _recorded(runs: tuple[Run, ...], stage: str, key: str) -> list[Any]:
    parts = (entry.get(stage) or {} for run in runs for entry in run.entries)
    return [part[key] for part in parts if part.get(key) is not None]


def _contrasts(
    strategies: tuple[StrategySummary, ...], baseline: str | None
) -> tuple[Contrast, ...]:
    others = [entry for entry in strategies if entry.strategy != baseline]
    reference = next((entry for entry in strategies if entry.strategy == baseline), None)
    if reference is None or baseline is None:
        return ()
    contrasts: list[Contrast] = []
    measures: tuple[Measure, ...] = ("aubc", "final_value")
    for measure in measures:
        held: Spread = getattr(reference, measure)
        tests = [paired_tests(getattr(entry, measure).values, held.values) for entry in others]
        t_p = holm([test.t_p for test in tests])
        wilcoxon_p = holm([test.wilcoxon_p for test in tests])
        for entry, test, t, w in zip(others, tests, t_p, wilcoxon_p, strict=True):
            contrasts.append(Contrast(entry.strategy, baseline, measure, test, t, w))
    return tuple(contrasts)


def _penalty(curves: dict[str, Floats]) -> Penalty | None:
    if len(curves) < 2 or min(next(iter(curves.values())).shape) < 2:
        return None
    matrix = penalty_matrix(curves, ALPHA)
    others = len(curves) - 1
    return Penalty(
        strategies=tuple(curves),
        matrix=tuple(tuple(row) for row in matrix.tolist()),
        wins=tuple((matrix.sum(axis=1) / others).tolist()),
        losses=tuple((matrix.sum(axis=0) / others).tolist()),
        budgets=next(iter(curves.values())).shape[1] - 1,
        alpha=ALPHA,
    )
