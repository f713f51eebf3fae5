"""Sections of the page that look inside: results by class, regime and overlap of the choices."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import permutations
from typing import Any

from steepest.core.markup import (
    Safe,
    element,
    heat_cell,
    paragraph,
    section,
    table,
)
from steepest.experiment.comparison import Comparison, Run
from steepest.experiment.overlap import CommonChoices, Shares
from steepest.experiment.report import numbers
from steepest.experiment.report.numbers import capitalise, class_words_of
from steepest.experiment.report.tables import share_cell
from steepest.experiment.statistics import Summary
from steepest.selecting.regime import INVERTED

_REGIME = (
    "The entropy's gradient vanishes where the prediction is uniform just as where it is certain, "
    "so a weak model can rank its most uncertain samples last. The entropy ratio is the mean "
    "entropy of the predictions as a share of the greatest possible, and the rank correlation "
    "compares the order by score with the order by entropy: near +1 the score prefers uncertain "
    "samples, below 0 it avoids them."
)
_TOLD = (
    "The share of what one strategy chose that the other chose too, mean over the seeds that both "
    "have. The first choice is made from the same candidates, and by the same model unless a "
    "strategy changes its training. The second table is about all labels that a run chose, in "
    "whatever order. What a strategy has in common with random is what chance gives; strategies "
    "that end with the same labels will hardly end with different models. The last column holds "
    "runs of a strategy with one seed against those with another, so with other first labels, "
    "weights and candidates: where it is high, the data decide what is chosen, not the model."
)


def classes_section(
    comparison: Comparison, summary: Summary, classes: Sequence[str]
) -> Safe | None:
    """Return the metric by class at the last cycle, None if it was not recorded."""
    metric = comparison.per_class_metric
    counted = {entry.strategy: entry.seeds for entry in summary.strategies}
    last = {
        name: _last_entries(comparison, name, counted.get(name, ()))
        for name in comparison.strategies
    }
    columns = {name: _by_class(entries, metric) for name, entries in last.items()}
    columns = {name: values for name, values in columns.items() if values}
    if not columns:
        return None
    count = max(len(values) for values in columns.values())
    names = [classes[k] if k < len(classes) else f"class {k}" for k in range(count)]
    seen = [v for values in columns.values() for v in values if v is not None]
    low, span = min(seen, default=0.0), (max(seen, default=1.0) - min(seen, default=0.0)) or 1.0
    rows = [
        (
            names[k],
            *(
                _heat(values[k] if k < len(values) else None, low, span)
                for values in columns.values()
            ),
        )
        for k in range(count)
    ]
    counts = ", ".join(f"{name}: n = {len(last[name])}" for name in columns)
    text = capitalise(class_words_of(metric))
    caption = f"{text} by class at the last cycle, mean over seeds ({counts})"
    return section("classes", "Results by class", table(caption, ("class", *columns), rows))


def regime_section(comparison: Comparison) -> Safe | None:
    """Return entropy ratio and rank correlation by cycle, None if they were not recorded."""
    text = {name: _by_cycle(comparison.begun_runs(name)) for name in comparison.strategies}
    text = {name: cycles for name, cycles in text.items() if cycles}
    if not text:
        return None
    labelled = {
        cycle: count for cycles in text.values() for cycle, (count, _, _, _) in cycles.items()
    }
    header = ["cycle", "labels"]
    for name in text:
        header += [f"{name}: entropy ratio", f"{name}: rank correlation"]
    rows = [
        (
            cycle,
            labelled[cycle],
            *(c for cycles in text.values() for c in _regime_cells(cycles.get(cycle))),
        )
        for cycle in sorted(labelled)
    ]
    n = numbers.span(seen for cycles in text.values() for (_, seen, _, _) in cycles.values())
    caption = f"Mean over seeds, n = {n}; ▼ marks a rank correlation of {INVERTED} or less"
    return section(
        "regime", "Regime of the scores", paragraph(_REGIME), table(caption, header, rows)
    )


def _last_entries(
    comparison: Comparison, strategy: str, seeds: Sequence[int]
) -> list[dict[str, Any]]:
    """Return the last records of the runs that count, or of all if none does."""
    counted = comparison.runs_of(strategy, seeds)
    return [run.entries[-1] for run in counted or comparison.begun_runs(strategy)]


def _by_class(entries: list[dict[str, Any]], metric: str) -> list[float | None]:
    """Average per class over the runs that tested it; None for a class without a test sample."""
    text = [entry["metrics"].get(metric) for entry in entries]
    text = [values if isinstance(values, list) else [] for values in text]
    count = max((len(values) for values in text), default=0)
    return [_mean(values[k] for values in text if k < len(values)) for k in range(count)]


def _by_cycle(
    runs: Iterable[Run],
) -> dict[int, tuple[int, int, float | None, float | None]]:
    """Return labels, number of runs, entropy ratio and rank correlation of each cycle."""
    found: dict[int, list[dict[str, Any]]] = {}
    for run in runs:
        for entry in run.entries:
            if entry.get("regime"):
                found.setdefault(entry["cycle"], []).append(entry)
    return {
        cycle: (
            entries[0]["labelled"],
            len(entries),
            _mean(entry["regime"].get("entropy_ratio") for entry in entries),
            _mean(entry["regime"].get("rank_correlation") for entry in entries),
        )
        for cycle, entries in found.items()
    }


def _regime_cells(
    text: tuple[int, int, float | None, float | None] | None,
) -> tuple[object, object]:
    if text is None:
        return numbers.DASH, numbers.DASH
    _, _, ratio, correlation = text
    mark = " ▼" if correlation is not None and correlation <= INVERTED else ""
    return numbers.share(ratio), numbers.signed(correlation) + mark


def _heat(value: float | None, low: float, span: float) -> Safe:
    if value is None:
        return element("td", numbers.DASH)
    return heat_cell(numbers.share(value), (value - low) / span)


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if known else None


def common_section(common: CommonChoices | None) -> Safe | None:
    """Return the choices in common, None where there are none to compare."""
    if common is None:
        return None
    pairs = permutations(range(len(common.strategies)), 2)
    n = numbers.seeds(*(common.n[i][j] for i, j in pairs if common.n[i][j]))
    other_seed = common.other_seed if any(s is not None for s in common.other_seed) else None
    return section(
        "choices",
        "Do they choose alike?",
        paragraph(_TOLD),
        _matrix(f"In common of the first choice, n = {n}", common.strategies, common.first),
        _matrix(
            f"In common of all that was chosen, n = {n}",
            common.strategies,
            common.whole,
            other_seed,
        ),
    )


def _matrix(
    caption: str,
    names: tuple[str, ...],
    shares: Shares,
    other_seed: tuple[float | None, ...] | None = None,
) -> Safe:
    rows = [
        (name, *map(share_cell, row), *(() if other_seed is None else (share_cell(other_seed[i]),)))
        for i, (name, row) in enumerate(zip(names, shares, strict=True))
    ]
    last = () if other_seed is None else ("itself, other seed",)
    return table(caption, ("strategy", *names, *last), rows)
