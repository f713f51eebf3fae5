"""All numbers of a comparison in one frozen summary; the formulas stand beside it.

Curves are in ``steepest.experiment.curves``, tests in ``steepest.experiment.significance``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from steepest.experiment.comparison import Comparison, Run
from steepest.experiment.curves import (
    Band,
    aubc,
    labels_saved,
    labels_to_match,
    labels_to_reach,
    mean_and_band,
)
from steepest.experiment.overlap import CommonChoices, common_choices
from steepest.experiment.significance import (
    PairedTest,
    holm,
    paired_tests,
    penalty_matrix,
    smallest_wilcoxon_p,
)

Measure = Literal["aubc", "final_value"]
"""Quantities in which strategies are compared."""
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
    "labels_to_match",
    "labels_to_reach",
    "mean_and_band",
    "paired_tests",
    "penalty_matrix",
    "smallest_wilcoxon_p",
    "summarise",
]

Floats = npt.NDArray[np.float64]
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
        name: The name of the comparison.
        metric: Key of the metric that all of it is about; higher is better.
        n: How many seeds count for every strategy. Statistics of a strategy rest on its own
            seeds, of which there may be more: see ``counts``.
        seeds: Those seeds that count for every strategy.
        runs_complete: How many runs have come to their end.
        runs_expected: How many were requested.
        baseline: The strategy others are compared with, None without a comparison.
        confidence: Level of the bands and intervals.
        strategies: One entry per strategy with a seed that counts; a strategy that has no
            complete seed in common with the baseline is left out.
        contrasts: Tests against the baseline; Holm's family is all strategies of one measure.
        penalty: None without a pair of strategies that has two seeds, or with one budget.
        common: Samples that strategies chose in common; None without a pair with a common seed.
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


def summarise(comparison: Comparison, baseline: str | None = None) -> Summary:
    """Compute every number of a comparison from its complete runs.

    A strategy's numbers rest on the seeds that are complete for it and for the baseline, those of
    the baseline on all that are complete for it.

    Args:
        comparison: The records.
        baseline: The strategy others are compared with; random if not given, or the first without
            random.

    Raises:
        UnknownNameError: If the comparison has no strategy of the baseline's name.
        InputError: If the baseline has no complete run.
        RunFolderError: If complete runs were not made at the same budgets.
    """
    held = comparison.choose_baseline(baseline)
    seeds = _counted_seeds(comparison, held)
    strategies = tuple(_strategy(comparison, name, seeds[name], held) for name in seeds)
    common = tuple(
        seed for seed in comparison.seeds if seeds and all(seed in own for own in seeds.values())
    )
    return Summary(
        name=comparison.name,
        metric=comparison.metric,
        n=len(common),
        seeds=common,
        runs_complete=sum(run.complete for run in comparison.runs.values()),
        runs_expected=len(comparison.runs),
        baseline=held,
        confidence=CONFIDENCE,
        strategies=strategies,
        contrasts=_contrasts(strategies, held),
        penalty=_penalty(comparison, tuple(seeds)),
        common=common_choices(comparison),
    )


def _counted_seeds(comparison: Comparison, baseline: str | None) -> dict[str, tuple[int, ...]]:
    """Return the seeds that count for each strategy; one that has none is left out."""
    complete = {name: comparison.complete_seeds(name) for name in comparison.compared}
    if baseline is None:
        return complete
    reference = complete[baseline]
    shared = {name: tuple(s for s in own if s in reference) for name, own in complete.items()}
    return {name: own for name, own in shared.items() if own}


def _strategy(
    comparison: Comparison, name: str, seeds: tuple[int, ...], baseline: str | None
) -> StrategySummary:
    budgets, own = comparison.budgets, comparison.curves(name, seeds)
    runs = comparison.runs_of(name, seeds)
    band = mean_and_band(own, CONFIDENCE)
    saved = None
    if baseline is not None and name != baseline:
        saved = _saved(budgets, own, comparison.curves(baseline, seeds))
    return StrategySummary(
        strategy=name,
        n=len(seeds),
        seeds=seeds,
        curve=Curve(
            budgets=tuple(int(b) for b in budgets),
            mean=tuple(band.mean.tolist()),
            low=tuple(band.low.tolist()),
            high=tuple(band.high.tolist()),
        ),
        aubc=_spread(aubc(budgets, curve) for curve in own),
        final_value=_spread(own[:, -1].tolist()),
        labels_saved=saved,
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
    needed = labels_to_match(budgets, own, baseline)
    reference = labels_to_match(budgets, baseline, baseline)
    reached = [value is not None for value in values]
    return LabelsSaved(
        mean=_mean(values),
        reached=sum(reached),
        values=values,
        needed=_mean(needed),
        baseline_needed=_mean(r for r, there in zip(reference, reached, strict=True) if there),
    )


def _mean(values: Iterable[float | None]) -> float | None:
    """Return the mean of the values present, None without any."""
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None


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
        held = _by_seed(reference, measure)
        tests = [
            paired_tests(getattr(entry, measure).values, [held[seed] for seed in entry.seeds])
            for entry in others
        ]
        t_p = holm([test.t_p for test in tests])
        wilcoxon_p = holm([test.wilcoxon_p for test in tests])
        for entry, test, t, w in zip(others, tests, t_p, wilcoxon_p, strict=True):
            contrasts.append(Contrast(entry.strategy, baseline, measure, test, t, w))
    return tuple(contrasts)


def _by_seed(entry: StrategySummary, measure: Measure) -> Mapping[int, float]:
    spread: Spread = getattr(entry, measure)
    return dict(zip(entry.seeds, spread.values, strict=True))


def _penalty(comparison: Comparison, names: tuple[str, ...]) -> Penalty | None:
    """Judge each pair on the seeds both have; None if no pair has two, or there is one budget."""
    complete = [set(comparison.complete_seeds(name)) for name in names]
    n = [[len(one & other) for other in complete] for one in complete]
    budgets = comparison.budgets.size - 1
    pairs = [(i, j) for i, j in combinations(range(len(names)), 2) if n[i][j] > 1]
    if not pairs or budgets < 1:
        return None
    matrix: list[list[float | None]] = [
        [0.0 if i == j else None for j in range(len(names))] for i in range(len(names))
    ]
    for i, j in pairs:
        seeds = sorted(complete[i] & complete[j])
        curves = {name: comparison.curves(name, seeds) for name in (names[i], names[j])}
        shares = penalty_matrix(curves, ALPHA)
        matrix[i][j], matrix[j][i] = float(shares[0, 1]), float(shares[1, 0])
    others = [[row for row in range(len(names)) if row != k] for k in range(len(names))]
    return Penalty(
        strategies=names,
        matrix=tuple(tuple(row) for row in matrix),
        n=tuple(tuple(row) for row in n),
        wins=tuple(_mean(matrix[k][j] for j in others[k]) for k in range(len(names))),
        losses=tuple(_mean(matrix[i][k] for i in others[k]) for k in range(len(names))),
        budgets=budgets,
        alpha=ALPHA,
    )
