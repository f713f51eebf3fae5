"""Comparisons out of a few numbers, without a folder."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from steepest.experiment.comparison import Comparison, Run

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

BUDGETS = (20, 40, 60)
CURVES = {
    "random": [[0.5, 0.6, 0.7], [0.4, 0.6, 0.72], [0.45, 0.62, 0.7]],
    "margin": [[0.5, 0.7, 0.8], [0.4, 0.72, 0.8], [0.45, 0.61, 0.69]],
    "entropy": [[0.5, 0.6, 0.71], [0.4, 0.58, 0.75], [0.45, 0.6, 0.7]],
}


def make_entry(
    cycle: int, accuracy: float, *, last: bool, budgets: Sequence[int] = BUDGETS
) -> dict[str, Any]:
    """Make the record of one cycle."""
    return {
        "cycle": cycle,
        "labelled": budgets[cycle],
        "metrics": {"accuracy": accuracy},
        "selected": [] if last else [1, 2],
        "training": {"seconds": 2.0, "peak_bytes": 5},
        "scoring": None if last else {"seconds": 0.5, "peak_bytes": 100 + cycle},
    }


def make_comparison(
    curves: Mapping[str, Sequence[Sequence[float]]] = CURVES,
    missing: Collection[tuple[str, int]] = (),
    cut: Collection[tuple[str, int]] = (),
    config: Mapping[str, Any] | None = None,
) -> Comparison:
    """Build runs; those in ``missing`` have not begun, those in ``cut`` lack the last cycle."""
    seeds = range(len(next(iter(curves.values()))))
    runs = {}
    for name, by_seed in curves.items():
        for seed, accuracy in enumerate(by_seed):
            entries = [
                make_entry(c, a, last=c == len(accuracy) - 1) for c, a in enumerate(accuracy)
            ]
            if (name, seed) in missing:
                entries = []
            if (name, seed) in cut:
                entries.pop()
            runs[name, seed] = Run(name, seed, tuple(entries))
    return Comparison("test", tuple(curves), tuple(seeds), runs, config=config or {})
