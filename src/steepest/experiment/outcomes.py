"""What runs have recorded, in memory: one run, and a comparison of many."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from steepest.errors import RunFolderError
from steepest.journal import Entry
from steepest.tasks.base import TASKS, Task

Floats = npt.NDArray[np.float64]

BASELINE = "random"


def task_name(config: Mapping[str, Any]) -> str:
    """Return the name of a configuration's task; classification if it names none."""
    part = config.get("task")
    name = part.get("name") if isinstance(part, Mapping) else None
    return str(name or "classification")


def headline_metric(task: str) -> str:
    """Return the key of the metric that a task's comparisons are about; higher is better.

    A task that is not registered, such as a user's own that has not been imported, counts by what
    tasks have in common.
    """
    return TASKS.get(task).headline if task in TASKS.names() else Task.headline


def per_class_metric(task: str) -> str:
    """Return the key of a task's metric that holds one number for each class."""
    return TASKS.get(task).per_class if task in TASKS.names() else Task.per_class


def _told(label: str, variant: Mapping[str, Any]) -> str:
    name = variant.get("name", label)
    options = ", ".join(f"{key} {value}" for key, value in (variant.get("options") or {}).items())
    told = label if name == label else f"{label} = {name}"
    return f"{told} ({options})" if options else told


@dataclass(frozen=True)
class Run:
    """The records of one strategy with one seed.

    Attributes:
        strategy: Label of the strategy in its comparison; its name, if it has no other.
        seed: Seed of the run.
        entries: One record per finished cycle, in order; may be empty.
    """

    strategy: str
    seed: int
    entries: tuple[Entry, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether the last cycle is there: the one that selects nothing more."""
        return bool(self.entries) and not self.entries[-1]["selected"]

    @property
    def budgets(self) -> Floats:
        """Numbers of labels at each cycle [B]."""
        return np.array([entry["labelled"] for entry in self.entries], dtype=np.float64)

    def curve(self, metric: str) -> Floats:
        """Return a metric on the test set at each cycle [B]."""
        values = [entry["metrics"][metric] for entry in self.entries]
        return np.array(values, dtype=np.float64)


@dataclass(frozen=True)
class Comparison:
    """The runs of one comparison, or a single run.

    Attributes:
        name: What the comparison is called.
        strategies: Labels of the strategies that were asked for.
        seeds: Seeds that were asked for.
        runs: Every run that was asked for, by strategy and seed; a run that has not begun has no
            entries.
        config: The configuration as nested tables.
        command: The command that gave the records, or an empty string.
        versions: Versions of what was used.
        single: Whether this is one run outside of a comparison.
        variants: Name and options of the strategy behind a label, where they are on record.
    """

    name: str
    strategies: tuple[str, ...]
    seeds: tuple[int, ...]
    runs: Mapping[tuple[str, int], Run]
    config: Mapping[str, Any]
    command: str = ""
    versions: Mapping[str, Any] | None = None
    single: bool = False
    variants: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def legend(self) -> tuple[str, ...]:
        """What each label stands for, such as ``l2 = entropy-gradnorm (norm l2)``."""
        return tuple(_told(label, self.variants.get(label, {})) for label in self.strategies)

    @property
    def metric(self) -> str:
        """Key of the metric that counts: the headline of the task."""
        return headline_metric(task_name(self.config))

    @property
    def per_class_metric(self) -> str:
        """Key of the metric that holds one number for each class."""
        return per_class_metric(task_name(self.config))

    @property
    def compared(self) -> tuple[str, ...]:
        """Strategies with at least one complete run."""
        return tuple(
            name for name in self.strategies if any(self.runs[name, s].complete for s in self.seeds)
        )

    @property
    def paired_seeds(self) -> tuple[int, ...]:
        """Seeds that are complete for every compared strategy: statistics rest on these."""
        compared = self.compared
        return tuple(
            seed
            for seed in self.seeds
            if compared and all(self.runs[name, seed].complete for name in compared)
        )

    @property
    def baseline(self) -> str | None:
        """The strategy others are held against: random, else the first; None without others."""
        compared = self.compared
        if len(compared) < 2:
            return None
        return BASELINE if BASELINE in compared else compared[0]

    def paired_runs(self, strategy: str) -> tuple[Run, ...]:
        """Return the runs of a strategy that count in the statistics, by seed."""
        return tuple(self.runs[strategy, seed] for seed in self.paired_seeds)

    def begun_runs(self, strategy: str) -> tuple[Run, ...]:
        """Return the runs of a strategy that have at least one record, by seed."""
        runs = (self.runs[strategy, seed] for seed in self.seeds)
        return tuple(run for run in runs if run.entries)

    def paired_curves(self) -> tuple[Floats, dict[str, Floats]]:
        """Return the budgets [B] and each compared strategy's curves [S, B].

        Raises:
            RunFolderError: If the runs were not made at the same budgets.
        """
        budgets = np.zeros(0)
        curves: dict[str, Floats] = {}
        for strategy in self.compared if self.paired_seeds else ():
            runs = self.paired_runs(strategy)
            budgets = budgets if budgets.size else runs[0].budgets
            for run in runs:
                if not np.array_equal(run.budgets, budgets):
                    raise RunFolderError(
                        f"{strategy} with seed {run.seed} was labelled at other budgets than the "
                        "rest: its records belong to another comparison; remove that run and "
                        "compare again"
                    )
            curves[strategy] = np.stack([run.curve(self.metric) for run in runs])
        return budgets, curves
