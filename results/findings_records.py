"""What the records in ``results`` say of entropy-gradnorm, setting by setting.

Differences are paired by seed and in points of accuracy.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from steepest.experiment.comparison import Comparison
from steepest.experiment.report import read_comparison
from steepest.experiment.statistics import PairedTest, aubc, paired_tests

RESULTS = Path(__file__).parent
OURS = "entropy-gradnorm"

Floats = npt.NDArray[np.float64]

SETTINGS: Mapping[str, str] = {
    "digits, 5 epochs": "findings/epochs-5",
    "digits, 10 epochs": "findings/epochs-10",
    "digits, 20 epochs": "findings/epochs-20",
    "digits, 50 epochs": "findings/cold",
    "digits, 350 epochs": "findings/cold-long",
    "digits, 50 epochs, warm start": "findings/warm",
    "digits, 20 % wrong labels": "findings/noise-20",
    "digits, 40 % wrong labels": "findings/noise-40",
    "Caltech-101, small net": "findings/caltech101",
    "CIFAR-10, small net, 30 epochs": "cifar10-small",
    "CIFAR-10, small net, 120 epochs": "findings/cifar10-long",
    "50 complexes, 3D ResNet-18": "50c-snr005-fast",
    "CIFAR-10, ResNet-18, warm start": "cifar10-study/warm",
}
"""Every setting in which entropy-gradnorm was compared for classification, and its folder."""


@cache
def read(folder: str) -> Comparison:
    return read_comparison(RESULTS / f"{folder}.tar.xz")


def all_settings() -> dict[str, Comparison]:
    return {name: read(folder) for name, folder in SETTINGS.items()}


def areas(comparison: Comparison, strategy: str, seeds: Sequence[int] | None = None) -> Floats:
    """Return the area under the budget curve by seed [S], in points; of all that are complete."""
    chosen = comparison.complete_seeds(strategy) if seeds is None else seeds
    curves = comparison.curves(strategy, chosen)
    return np.array([100 * aubc(comparison.budgets, curve) for curve in curves])


def common_seeds(comparison: Comparison, *strategies: str) -> tuple[int, ...]:
    """Return the seeds with which all of some strategies are complete."""
    complete = [set(comparison.complete_seeds(name)) for name in strategies]
    return tuple(seed for seed in comparison.seeds if all(seed in own for own in complete))


def without_budget(comparison: Comparison, budget: int) -> Comparison:
    """Return a comparison without the records of one budget."""
    runs = {
        key: replace(run, entries=tuple(e for e in run.entries if e["labelled"] != budget))
        for key, run in comparison.runs.items()
    }
    return replace(comparison, runs=runs)


def difference(comparison: Comparison, one: str, other: str) -> PairedTest | None:
    """Hold two strategies' areas against each other over common seeds; None without any."""
    if one == other or not {one, other} <= set(comparison.compared):
        return None
    seeds = common_seeds(comparison, one, other)
    if not seeds:
        return None
    return paired_tests(areas(comparison, one, seeds), areas(comparison, other, seeds))


def selections(
    comparison: Comparison, one: str, other: str, cycles: int | None = None
) -> Iterator[tuple[set[int], set[int]]]:
    """Yield what two strategies chose with the same seed in the same cycle."""
    for seed in common_seeds(comparison, one, other):
        runs = (comparison.runs[name, seed].entries[:-1][:cycles] for name in (one, other))
        for first, second in zip(*runs, strict=True):
            yield set(first["selected"]), set(second["selected"])


def shared_at_first(comparison: Comparison, one: str, other: str) -> Floats:
    """Return the share of the first choice that two strategies have in common, by seed [S].

    The first choice is made by the same model from the same candidates.
    """
    pairs = selections(comparison, one, other, cycles=1)
    return np.array([len(a & b) / len(a) for a, b in pairs])


def rarest_class(comparison: Comparison, strategy: str, labels: npt.NDArray[np.int64]) -> Floats:
    """Return how many labels a strategy bought of its rarest class, by seed [S]."""
    counts = []
    for run in comparison.runs_of(strategy, comparison.complete_seeds(strategy)):
        bought = [sample for entry in run.entries for sample in entry["selected"]]
        counts.append(np.bincount(labels[bought], minlength=labels.max() + 1).min())
    return np.array(counts, dtype=np.float64)


@dataclass(frozen=True)
class Setting:
    """A setting: the first model of each seed, and what the choice gave.

    Attributes:
        seeds: S.
        accuracy: Of the first model, in % [S].
        correlation: Rank correlation of entropy-gradnorm with entropy at the first choice [S].
        ratio: Mean entropy over log C then [S].
        shared: Share of that choice that entropy would have made too [S]; None without entropy.
        gains: AUBC of entropy-gradnorm less that of another strategy, in points [S]; NaN for
            seeds that the other one does not have.
    """

    seeds: int
    accuracy: Floats
    correlation: Floats
    ratio: Floats
    shared: Floats | None
    gains: Mapping[str, Floats]


def setting_of(comparison: Comparison, others: Sequence[str]) -> Setting:
    seeds = comparison.complete_seeds(OURS)
    runs = comparison.runs_of(OURS, seeds)
    regimes = [run.entries[0]["regime"] for run in runs]
    present = [name for name in others if name in comparison.compared]
    with_entropy = "entropy" in comparison.compared
    return Setting(
        seeds=len(runs),
        accuracy=np.array([100 * run.curve(comparison.metric)[0] for run in runs]),
        correlation=np.array([regime["rank_correlation"] for regime in regimes]),
        ratio=np.array([regime["entropy_ratio"] for regime in regimes]),
        shared=shared_at_first(comparison, OURS, "entropy") if with_entropy else None,
        gains={name: _gains(comparison, name, seeds) for name in present},
    )


def _gains(comparison: Comparison, other: str, seeds: Sequence[int]) -> Floats:
    both = common_seeds(comparison, OURS, other)
    gain = areas(comparison, OURS, both) - areas(comparison, other, both)
    found = dict(zip(both, gain, strict=True))
    return np.array([found.get(seed, np.nan) for seed in seeds])
