"""Tables of ``docs/study.md``, made from the records in ``results``.

Strategies are held against each other over the seeds that both have. Intervals are of 95 %, by
Student's t; p-values are corrected by Holm within a column.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from findings_records import RESULTS, Floats, difference, read
from findings_records import areas as areas_of
from findings_tables import told_together
from markdown_table import table
from paper_tables import LITERAL

from steepest.experiment.comparison import Comparison
from steepest.experiment.overlap import common_choices
from steepest.experiment.study_plan import read_plan
from steepest.paper.published_numbers import Series, published

_POOL = 50_000
_FEW = "cifar10-few-labels"
_NONE = "–"


def study() -> Comparison:
    return read("cifar10-study/warm")


def accuracies() -> str:
    """Test accuracy at every budget, with what is published of the same method below it."""
    comparison = study()
    told = published("figure-1")
    rows: list[tuple[object, ...]] = []
    budgets = _budgets(comparison)
    for name in comparison.compared:
        curves = 100 * comparison.curves(name, comparison.complete_seeds(name))
        rows.append((f"**{_shown(name)}**", len(curves), *_cells(curves)))
        for series in told.find(data="cifar10", method=name):
            at = {round(share * _POOL / 100): value for share, value in _pairs(series)}
            cells = (_number(at.get(budget)) for budget in budgets)
            rows.append((f"{name}, {_source(series)}", "", *cells))
    return table(("% with labels", "n", *(f"{budget:,}" for budget in budgets)), rows)


def areas() -> str:
    """Area under the curve, and differences from random and from plain entropy."""
    return _areas(study(), ("random", "entropy"))


def own() -> str:
    """How the strategy of our own was chosen: the same, on a short schedule and other seeds."""
    return _areas(read("cifar10-study/short"), ("random", "entropy-gradnorm"))


def starts() -> str:
    """Weights carried over, and anew in every cycle, over the seeds that both have."""
    warm, cold = study(), read("cifar10-study/cold")
    budgets, rows = _budgets(cold), []
    for name in cold.compared:
        seeds = [s for s in warm.complete_seeds(name) if s in cold.complete_seeds(name)]
        for told, comparison in (("warm", warm), ("cold", cold)):
            curves = 100 * comparison.curves(name, seeds)
            area = _mean(areas_of(comparison, name, seeds))
            rows.append((_shown(name), told, len(seeds), *_cells(curves), area))
    header = ("% with labels", "start", "n", *(f"{budget:,}" for budget in budgets))
    return table((*header, "AUBC"), rows)


def few_accuracies() -> str:
    """Test accuracy with few labels at every budget, means over seeds."""
    comparison = _few()
    rows = [
        (_shown(name), len(curves), *(f"{value:.2f}" for value in curves.mean(0)))
        for name in comparison.compared
        for curves in [100 * comparison.curves(name, comparison.complete_seeds(name))]
    ]
    return table(("% with labels", "n", *(f"{b:,}" for b in _budgets(comparison))), rows)


def few_areas() -> str:
    """Area under the curve with few labels, and differences from other strategies."""
    return _areas(_few(), ("random", "margin", "steepest"))


def few_recipes() -> str:
    """What each recipe gave random selection, which decided for one of them."""
    rows = []
    for archive in sorted((RESULTS / _FEW).glob("recipe-*.tar.xz")):
        name = archive.name.removesuffix(".tar.xz")
        comparison = read(f"{_FEW}/{name}")
        curves = 100 * comparison.curves("random", comparison.complete_seeds("random"))
        batch, rate = name.split("-")[1:]
        rows.append((batch, rate, len(curves), *_cells(curves)))
    budgets = (f"{budget:,}" for budget in _budgets(comparison))
    return table(("batch size", "learning rate", "n", *budgets), rows)


def _few() -> Comparison:
    return read(f"{_FEW}/few")


def _areas(comparison: Comparison, others: Sequence[str]) -> str:
    names = comparison.compared
    columns = [
        told_together([difference(comparison, name, other) for name in names]) for other in others
    ]
    rows = []
    for name, *cells in zip(names, *columns, strict=True):
        values = areas_of(comparison, name)
        last = 100 * comparison.curves(name, comparison.complete_seeds(name))[:, -1]
        rows.append((_shown(name), len(values), _mean(last), _mean(values), *cells))
    less = (f"less {other}" for other in others)
    return table(("strategy", "n", "last accuracy, %", "AUBC, points", *less), rows)


def choices() -> str:
    """What each strategy chose in common with entropy, and with itself under another seed."""
    comparison = study()
    whole = common_choices(comparison)
    first = common_choices(_of_one_first_model(comparison))
    columns = []
    for common, shares in ((first, first.first), (whole, whole.whole)):
        row = common.strategies.index("entropy")
        columns.append(dict(zip(common.strategies, shares[row], strict=True)))
    columns.append(dict(zip(whole.strategies, whole.other_seed, strict=True)))
    rows = [
        (
            _shown(name),
            len(comparison.complete_seeds(name)),
            *(_percent(c.get(name)) for c in columns),
        )
        for name in comparison.compared
    ]
    header = ("strategy", "n", "first choice, % with entropy", "all choices, % with entropy")
    return table((*header, "all choices, % with itself, other seed"), rows)


def _of_one_first_model(comparison: Comparison) -> Comparison:
    """Return the seeds in which all strategies chose first by the very same model."""
    kept = tuple(
        seed
        for seed in comparison.seeds
        if len(
            {
                comparison.runs[name, seed].entries[0]["model"]
                for name in comparison.compared
                if seed in comparison.complete_seeds(name)
            }
        )
        == 1
    )
    return replace(comparison, seeds=kept)


def gaps() -> str:
    """Training less test accuracy at every budget, and the paper's Table 3."""
    comparison, told = study(), published("table-3")
    budgets, rows = _budgets(comparison), []
    for name in comparison.compared:
        runs = comparison.runs_of(name, comparison.complete_seeds(name))
        gap = [
            [100 * (e["train_metrics"]["accuracy"] - e["metrics"]["accuracy"]) for e in run.entries]
            for run in runs
        ]
        rows.append((f"**{_shown(name)}**", len(runs), *_cells(np.array(gap))))
        for series in told.find(data="cifar10", method=name):
            at = {round(share * _POOL / 100): value for share, value in _pairs(series)}
            rows.append((f"{name}, the paper", "", *(_number(at.get(b)) for b in budgets)))
    return table(("points with labels", "n", *(f"{b:,}" for b in budgets)), rows)


def times() -> str:
    """What each strategy of the plan adds to a cycle on a GPU of its own, its run done or not."""
    measured = json.loads((RESULTS / "bench/cycle-h200.json").read_text(encoding="utf-8"))
    found = {one["strategy"]: one for one in measured["measurements"]}
    rows = []
    groups = read_plan(RESULTS.parent / "examples/cifar10-study.toml").groups
    for name in dict.fromkeys(v.label for g in groups if g.name == "warm" for v in g.variants):
        one = found.get(name)
        if one is not None:
            auxiliary = one["auxiliary_seconds"]
            told = _NONE if auxiliary is None else f"{auxiliary:.1f}"
            rows.append((_shown(name), f"{one['choosing_seconds']:.2f}", told))
    return table(("strategy", "choosing, s a cycle", "training for its sake, s"), rows)


def agreement() -> str:
    """Table 2: as it is worded, step by step towards the readings that come nearest, and chance."""
    data = json.loads((RESULTS / "reproduce/table-2/data.json").read_text(encoding="utf-8"))
    wanted = {told: {**LITERAL, **change} for told, change in _STEPS.items()}
    near = data["more"]["distances"][0]
    solved = "" if near["sound"] else ", systems not solved"
    wanted[f"nearest of all {len(data['more']['distances'])} readings{solved}"] = near["reading"]
    cycles = sorted({row["cycle"] for row in data["rows"]})
    lines = [(told, *_overlaps(data["rows"], reading, cycles)) for told, reading in wanted.items()]
    paper = {row["cycle"]: row["paper"] for row in data["rows"]}
    chance = data["rows"][0]["chance"]
    lines.append(("the paper", *(f"{paper[c]:.0f}" for c in cycles)))
    lines.append(("by chance", *(f"{chance:.0f}" for _ in cycles)))
    return table((f"of {data['rows'][0]['k']:,}", *(f"cycle {c}" for c in cycles)), lines)


_STEPS: Mapping[str, Mapping[str, Any]] = {
    "as it is worded: next model, true labels, signed; label-free criterion": {},
    "next model, absolute": {"sign": "absolute"},
    "model that chose, signed": {"model": "T(c)"},
    "model that chose, absolute": {"model": "T(c)", "sign": "absolute"},
    "model that chose, absolute, influence label-free too": {
        "model": "T(c)",
        "sign": "absolute",
        "target_loss": "entropy",
    },
    "model that chose, absolute, true labels in both": {
        "model": "T(c)",
        "sign": "absolute",
        "criterion_loss": "true-label",
    },
    "model that chose, signed, true labels in both": {
        "model": "T(c)",
        "criterion_loss": "true-label",
    },
}


def _overlaps(
    rows: list[dict[str, Any]], reading: Mapping[str, Any], cycles: list[int]
) -> list[str]:
    found = {
        row["cycle"]: row["ours"]
        for row in rows
        if all(row[key] == value for key, value in reading.items())
    }
    return [_NONE if found.get(c) is None else f"{found[c]:.0f}" for c in cycles]


TABLES: Mapping[str, Callable[[], str]] = {
    "study accuracy": accuracies,
    "study areas": areas,
    "study own": own,
    "study starts": starts,
    "study choices": choices,
    "study gaps": gaps,
    "study few accuracy": few_accuracies,
    "study few areas": few_areas,
    "study few recipes": few_recipes,
    "study times": times,
    "study agreement": agreement,
}


def _percent(share: float | None) -> str:
    return _NONE if share is None else f"{100 * share:.0f}"


def _budgets(comparison: Comparison) -> list[int]:
    return [int(budget) for budget in comparison.budgets]


def _source(series: Series) -> str:
    if series.about["quantity"] == "bound":
        return "at most, by the paper's Table 3"
    if series.source.startswith("the paper"):
        return "the paper's text"
    return "read off a figure of Huang et al."


def _pairs(series: Series) -> list[tuple[float, float]]:
    return list(zip(series.at, series.values, strict=True))


def _cells(curves: Floats) -> list[str]:
    return [_mean(curves[:, i]) for i in range(curves.shape[1])]


def _mean(values: Floats) -> str:
    spread = f" ± {values.std(ddof=1):.2f}" if len(values) > 1 else ""
    return f"{values.mean():.2f}{spread}"


def _number(value: float | None) -> str:
    return _NONE if value is None or np.isnan(value) else f"{value:g}"


def _shown(name: str) -> str:
    return f"`{name}`"
