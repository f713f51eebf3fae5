"""Tables of ``docs/findings.md``, made from the records in ``results``.

Intervals are of 95 %, by Student's t; p-values are corrected by Holm within a column.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
from findings_records import (
    OURS,
    Floats,
    Setting,
    all_settings,
    areas,
    difference,
    rarest_class,
    read,
    selections,
    setting_of,
    shared_at_first,
    without_budget,
)
from markdown_table import table

from steepest.data import load
from steepest.experiment.comparison import Comparison
from steepest.experiment.statistics import PairedTest, holm, paired_tests

OTHERS = ("random", "entropy", "margin")
_NONE = "–"
_CHOOSING = ("scoring", "auxiliary")


def told(test: PairedTest | None, p: float | None = None) -> str:
    """Write a difference with its interval; a star says that p, after Holm, is 5 % or less."""
    if test is None:
        return _NONE
    star = " *" if p is not None and p <= 0.05 else ""
    if test.low is None or test.high is None:
        return f"{test.mean_difference:+.2f}"
    return f"{test.mean_difference:+.2f} [{test.low:+.2f}, {test.high:+.2f}]{star}"


def told_together(tests: Sequence[PairedTest | None]) -> list[str]:
    """Write the tests of one family, corrected for their number."""
    p_values = holm([None if test is None else test.t_p for test in tests])
    return [told(test, p) for test, p in zip(tests, p_values, strict=True)]


def schemes(comparison: Comparison | None = None) -> str:
    comparison = comparison or read("findings/schemes")
    rows = []
    for name in _others(comparison):
        pairs = list(selections(comparison, OURS, name))
        first = list(selections(comparison, OURS, name, cycles=1))
        both = f"{sum(len(a & b) for a, b in first)} of {sum(len(a) for a, _ in first)}"
        same = f"{sum(a == b for a, b in pairs)} of {len(pairs)}"
        gap = difference(comparison, name, OURS)
        rows.append((_label(comparison, name), both, same, told(gap)))
    header = ("beside `entropy-gradnorm`", "chosen by both in the first choice")
    return table((*header, "equal choices in whole runs", "AUBC less its AUBC"), rows)


def starts(cold: Comparison | None = None, warm: Comparison | None = None) -> str:
    cold, warm = cold or read("findings/cold"), warm or read("findings/warm")
    names = ["random", *(name for name in cold.compared if name != "random")]
    columns: list[list[str]] = []
    for start in (cold, warm):
        columns.append([_spread(areas(start, name)) for name in names])
        gains = [difference(start, name, "random") for name in names[1:]]
        columns.append([_NONE, *told_together(gains)])
    changes = [paired_tests(areas(warm, name), areas(cold, name)) for name in names]
    labels = (_label(cold, name) for name in names)
    rows = zip(labels, *columns, told_together(changes), strict=True)
    header = ("AUBC, cold", "less random", "AUBC, warm", "less random", "warm less cold")
    return table(("strategy", *header), rows)


def criteria(cold: Comparison | None = None, warm: Comparison | None = None) -> str:
    both = (cold or read("findings/cold"), warm or read("findings/warm"))
    names = _others(both[0])
    cells: list[list[str]] = [[] for _ in names]
    for start in both:
        tests = [paired_tests(areas(start, OURS), areas(start, name)) for name in names]
        t_p = holm([test.t_p for test in tests])
        w_p = holm([test.wilcoxon_p for test in tests])
        for row, line, t, w in zip(cells, told_together(tests), t_p, w_p, strict=True):
            row += [line, f"{_p(t)}, {_p(w)}"]
    labels = [_label(both[0], name) for name in names]
    rows = [(label, *row) for label, row in zip(labels, cells, strict=True)]
    return table(("`entropy-gradnorm` less", "cold", "p (t, W)", "warm", "p (t, W)"), rows)


def choices(cold: Comparison | None = None) -> str:
    """What strategies have in common with entropy, when the same model chooses."""
    cold = cold or read("findings/cold")
    rows = []
    for name in ("random", *(n for n in cold.compared if n not in {"random", "entropy"})):
        shared = 100 * shared_at_first(cold, name, "entropy")
        regimes = [
            run.entries[0]["regime"] for run in cold.runs_of(name, cold.complete_seeds(name))
        ]
        values = [r["rank_correlation"] for r in regimes if r and r["rank_correlation"] is not None]
        correlation = f"{np.mean(values):+.2f}" if values else _NONE
        rows.append((_label(cold, name), correlation, _spread(shared, 1)))
    header = ("strategy", "rank correlation with entropy, all candidates")
    return table((*header, "% of its choice that entropy makes too"), rows)


def spread(comparison: Comparison | None = None) -> str:
    """Ways to spread picks over features or by chance, beside the plain top of each criterion."""
    comparison = comparison or read("findings/spread")
    columns = [
        told_together([difference(comparison, name, other) for name in comparison.compared])
        for other in (OURS, "entropy")
    ]
    labels = [_label(comparison, name) for name in comparison.compared]
    means = [_spread(areas(comparison, name)) for name in comparison.compared]
    header = ("strategy", "AUBC", "less `entropy-gradnorm`", "less `entropy`")
    return table(header, zip(labels, means, *columns, strict=True))


def field(comparison: Comparison | None = None) -> str:
    """All strategies, the highest area first, with what they cost and where they began."""
    comparison = comparison or read("findings/field")
    names = sorted(comparison.compared, key=lambda name: -areas(comparison, name).mean())
    columns = [
        told_together([difference(comparison, name, other) for name in names])
        for other in ("random", "entropy")
    ]
    means = [_spread(areas(comparison, name)) for name in names]
    first = [_first_accuracy(comparison, name) for name in names]
    cost = [f"{_seconds_for_choosing(comparison, name):.2f}" for name in names]
    labels = [_label(comparison, name) for name in names]
    counts = [len(comparison.complete_seeds(name)) for name in names]
    header = (
        "strategy",
        "n",
        "first model, %",
        "AUBC",
        "less `random`",
        "less `entropy`",
        "s a run",
    )
    return table(header, zip(labels, counts, first, means, *columns, cost, strict=True))


def _first_accuracy(comparison: Comparison, name: str) -> str:
    return f"{100 * comparison.curves(name, comparison.complete_seeds(name))[:, 0].mean():.2f}"


def _seconds_for_choosing(comparison: Comparison, name: str) -> float:
    """Return the mean over seeds of what a run spent on choosing, and training for its sake."""
    runs = comparison.runs_of(name, comparison.complete_seeds(name))
    costs = (entry.get(s) for run in runs for entry in run.entries for s in _CHOOSING)
    return sum(cost["seconds"] for cost in costs if cost) / len(runs)


def against_random(found: Mapping[str, Comparison]) -> str:
    """Each strategy less random, one column for each comparison; a column is one family."""
    names = list(dict.fromkeys(name for one in found.values() for name in one.compared))
    names.remove("random")
    columns = []
    for one in found.values():
        base = areas(one, "random")
        gains = told_together([difference(one, name, "random") for name in names])
        columns.append([f"{base.mean():.2f} (n = {len(base)})", *gains])
    variants = {name: _label(one, name) for one in found.values() for name in one.compared}
    labels = ["`random`, AUBC", *(f"{variants[name]}, less random" for name in names)]
    return table(("strategy", *found), zip(labels, *columns, strict=True))


def weak() -> str:
    epochs = {5: "epochs-5", 10: "epochs-10", 20: "epochs-20", 50: "cold", 350: "cold-long"}
    found = {f"{n} epochs": read(f"findings/{folder}") for n, folder in epochs.items()}
    kept = set(found["5 epochs"].compared)
    gains = against_random({title: _only(one, kept) for title, one in found.items()})
    return f"{gains}\n{_rarest(found['10 epochs'])}"


def _rarest(comparison: Comparison) -> str:
    sealed = load("digits").train_labels
    labels = sealed.unseal("oracle analysis: the classes of what was chosen").numpy()
    names = ("random", "entropy", "margin", OURS)
    means = [f"`{n}` {rarest_class(comparison, n, labels).mean():.1f}" for n in names]
    return f"Labels of the rarest class among 120, 10 epochs, mean: {', '.join(means)}.\n"


def noise() -> str:
    shares = {0: "cold", 20: "noise-20", 40: "noise-40"}
    found = {f"{n} % wrong": read(f"findings/{folder}") for n, folder in shares.items()}
    kept = set(found["20 % wrong"].compared)
    return against_random({title: _only(one, kept) for title, one in found.items()})


def classes() -> str:
    found = {"Caltech-101, 101 classes": "findings/caltech101"}
    found["simulated volumes, 50 classes"] = "50c-snr005-fast"
    return against_random({title: read(folder) for title, folder in found.items()})


def settings(found: Mapping[str, Comparison] | None = None) -> str:
    found = found or all_settings()
    columns = [
        told_together([difference(comparison, OURS, other) for comparison in found.values()])
        for other in OTHERS
    ]
    rows = [
        (name, *_first_model(setting_of(comparison, OTHERS)), *cells)
        for (name, comparison), cells in zip(found.items(), zip(*columns, strict=True), strict=True)
    ]
    header = ("setting", "seeds", "accuracy", "entropy ratio", "rank correlation", "shared")
    return table((*header, *(f"less {other}" for other in OTHERS)), rows)


def without_140(found: Mapping[str, Comparison] | None = None) -> str:
    """The settings of digits again, without the budget at which trainings are unsteady."""
    found = found or {k: v for k, v in all_settings().items() if k.startswith("digits")}
    rest = [without_budget(comparison, 140) for comparison in found.values()]
    columns = [told_together([difference(one, OURS, other) for one in rest]) for other in OTHERS]
    rows = zip(found, *columns, strict=True)
    return table(("without 140 labels", *(f"less {other}" for other in OTHERS)), rows)


def prediction(found: Mapping[str, Comparison] | None = None) -> str:
    """Rank correlations between the first diagnosis and what came of it."""
    found = found or all_settings()
    parts = [setting_of(comparison, OTHERS) for comparison in found.values()]
    rows = []
    for title, predictor in _PREDICTORS.items():
        for other in OTHERS:
            pairs = [(predictor(part), part.gains.get(other)) for part in parts]
            known = [_both(x, y) for x, y in pairs if x is not None and y is not None]
            rows.append((title, f"less {other}", *_at_three_levels(known)))
    header = ("diagnosis at the first choice", "gain", "over settings", "over runs")
    return table((*header, "over runs, within settings"), rows)


def _both(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    there = ~np.isnan(y)
    return x[there], y[there]


_PREDICTORS: Mapping[str, Callable[[Setting], Floats | None]] = {
    "rank correlation": lambda part: part.correlation,
    "entropy ratio": lambda part: part.ratio,
    "shared": lambda part: part.shared,
}


def paper_size() -> str:
    """CIFAR-10 by the paper's protocol: the last budget, seed by seed."""
    rows = []
    comparison = read("cifar10-study/warm")
    for seed in comparison.seeds:
        base = None
        for name in ("random", *(n for n in comparison.compared if n != "random")):
            if seed not in comparison.complete_seeds(name):
                continue
            last = 100 * comparison.curves(name, [seed])[0, -1]
            base = last if name == "random" else base
            less = _NONE if name == "random" or base is None else f"{last - base:+.2f}"
            area = areas(comparison, name, [seed])[0]
            rows.append((seed, f"`{name}`", f"{last:.2f}", less, f"{area:.2f}"))
    return table(("seed", "strategy", "accuracy", "less random", "AUBC"), rows)


TABLES: Mapping[str, Callable[[], str]] = {
    "findings schemes": schemes,
    "findings starts": starts,
    "findings criteria": criteria,
    "findings choices": choices,
    "findings spread": spread,
    "findings field": field,
    "findings again": lambda: field(read("findings/again")),
    "findings weak": weak,
    "findings noise": noise,
    "findings classes": classes,
    "findings settings": settings,
    "findings without": without_140,
    "findings prediction": prediction,
    "findings paper size": paper_size,
}


def _only(comparison: Comparison, kept: set[str]) -> Comparison:
    names = tuple(name for name in comparison.strategies if name in kept)
    return replace(comparison, strategies=names)


def _others(comparison: Comparison) -> list[str]:
    return [name for name in comparison.compared if name not in {OURS, "random"}]


def _label(comparison: Comparison, name: str) -> str:
    variant = comparison.variants.get(name, {})
    options = ", ".join(f"{k} = {v}" for k, v in (variant.get("options") or {}).items())
    shown = f"`{variant.get('name', name)}`"
    return f"{shown}, {options}" if options and name != variant.get("name", name) else shown


def _first_model(part: Setting) -> tuple[object, ...]:
    shared = _NONE if part.shared is None else f"{100 * part.shared.mean():.0f} %"
    means = (f"{part.accuracy.mean():.1f}", f"{part.ratio.mean():.2f}")
    return (part.seeds, *means, f"{part.correlation.mean():+.2f}", shared)


def _at_three_levels(pairs: Sequence[tuple[Floats, Floats]]) -> tuple[str, str, str]:
    several = [(x - x.mean(), y - y.mean()) for x, y in pairs if len(x) > 1]
    return (
        _spearman([x.mean() for x, _ in pairs], [y.mean() for _, y in pairs]),
        _spearman(*map(np.concatenate, zip(*pairs, strict=True))),
        # No p-value: with a mean taken off for each setting the runs are no longer independent.
        _spearman(*map(np.concatenate, zip(*several, strict=True)), tested=False),
    )


def _spread(values: Floats, decimals: int = 2) -> str:
    return f"{values.mean():.{decimals}f} ± {values.std(ddof=1):.{decimals}f}"


def _spearman(x: npt.ArrayLike, y: npt.ArrayLike, *, tested: bool = True) -> str:
    from scipy import stats

    # Equal values differ in their last bits once subtracted; ranks must not see it.
    found = stats.spearmanr(np.round(x, 9), np.round(y, 9))
    p = f", p {_p(float(found.pvalue))}" if tested else ""
    return f"{found.statistic:+.2f} (n = {np.size(x)}{p})"


def _p(value: float | None) -> str:
    if value is None:
        return _NONE
    return f"{value:.3f}" if value >= 0.001 else "< 0.001"
