"""All numbers of a comparison in one frozen summary; the formulas stand beside it.

Curves are in ``steepest.experiment.curves``, tests in ``steepest.experiment.significance``, and
what a summary holds in ``steepest.experiment.summary``; all are at hand here too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from steepest.experiment.common_choices import common_choices
from steepest.experiment.curves import (
    Band,
    aubc,
    labels_saved,
    labels_to_match,
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
from steepest.experiment.summary import (
    Contrast,
    Curve,
    LabelsSaved,
    Measure,
    Penalty,
    Spread,
    StrategySummary,
    Summary,
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


def summarise(comparison: Comparison, baseline: str | None = None) -> Summary:
    """Compute every number of a comparison from its complete runs.

    A strategy's numbers rest on the seeds that are complete for it and for the baseline, those of
    the baseline on all that are complete for it.

    Args:
        comparison: The records.
        baseline: The strategy others are held against; random if not given, or the first without
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
    """Return the mean of what is there, None if nothing is."""
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
