"""Records of runs in memory: one run, and a comparison of many."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from steepest.core.journal import Entry
from steepest.errors import InputError, RunFolderError, UnknownNameError
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


def measured_as(task: str, metrics: Mapping[str, Any]) -> str:
    """Return the registered task that records are measured as.

    A task of the user's own code has the headline of the one that it varies. Which one that is can
    be told from what is on record, without running the code that a folder names.

    Args:
        task: A task's name.
        metrics: What is on record.
    """
    if ":" not in task:
        return task
    return next((name for name in TASKS.names() if TASKS.get(name).headline in metrics), task)


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
        """Whether the last cycle, which selects nothing, is recorded."""
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
        commands: Every command that gave records, each once, the first first; those of older
            versions may not be on record.
        versions: Versions of what was used.
        single: Whether this is one run outside of a comparison.
        variants: Name and options of the strategy behind a label, where they are on record.
        task: The registered task that it is measured as; the configuration's if not given.
        chosen_metric: What is compared instead of the task's headline; None for the headline.
        data: What tells the data that the runs were made with from others; empty if it is not on
            record.
    """

    name: str
    strategies: tuple[str, ...]
    seeds: tuple[int, ...]
    runs: Mapping[tuple[str, int], Run]
    config: Mapping[str, Any]
    commands: tuple[str, ...] = ()
    versions: Mapping[str, Any] | None = None
    single: bool = False
    variants: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    task: str = ""
    chosen_metric: str | None = None
    data: Mapping[str, Any] = field(default_factory=dict)

    @property
    def command(self) -> str:
        """The first command that gave records, or an empty string."""
        return next(iter(self.commands), "")

    @property
    def legend(self) -> tuple[str, ...]:
        """Meaning of each label, such as ``l2 = entropy-gradnorm (norm l2)``."""
        return tuple(_told(label, self.variants.get(label, {})) for label in self.strategies)

    @property
    def metric(self) -> str:
        """Key of the metric that counts: the headline of the task if no other was chosen."""
        return self.chosen_metric or headline_metric(self.task or task_name(self.config))

    @property
    def per_class_metric(self) -> str:
        """Key of the metric that holds one number for each class."""
        return per_class_metric(self.task or task_name(self.config))

    @property
    def compared(self) -> tuple[str, ...]:
        """Strategies with at least one complete run."""
        return tuple(name for name in self.strategies if self.complete_seeds(name))

    def complete_seeds(self, strategy: str) -> tuple[int, ...]:
        """Return the seeds with which a strategy has come to its end."""
        return tuple(seed for seed in self.seeds if self.runs[strategy, seed].complete)

    @property
    def baseline(self) -> str | None:
        """The strategy others are held against: random, else the first; None without others."""
        return self.choose_baseline()

    def choose_baseline(self, name: str | None = None) -> str | None:
        """Return the strategy others are held against.

        Args:
            name: The one that is wanted; random if not given, or the first without random.

        Returns:
            Its label; None if there is no other strategy with a complete run.

        Raises:
            UnknownNameError: If the comparison has no such strategy.
            InputError: If it has no complete run.
        """
        compared = self.compared
        if name is not None and name not in self.strategies:
            raise UnknownNameError("baseline", name, self.strategies)
        if name is not None and name not in compared:
            listed = ", ".join(compared) or "none"
            raise InputError(
                f"baseline {name!r} has no complete run: let its runs finish, or choose one that "
                f"has: {listed}"
            )
        if len(compared) < 2:
            return None
        return name or (BASELINE if BASELINE in compared else compared[0])

    def runs_of(self, strategy: str, seeds: Iterable[int]) -> tuple[Run, ...]:
        """Return the runs of a strategy with these seeds, in their order."""
        return tuple(self.runs[strategy, seed] for seed in seeds)

    def begun_runs(self, strategy: str) -> tuple[Run, ...]:
        """Return the runs of a strategy that have at least one record, by seed."""
        return tuple(run for run in self.runs_of(strategy, self.seeds) if run.entries)

    @property
    def budgets(self) -> Floats:
        """Numbers of labels at each cycle of every complete run [B]; empty without one.

        Raises:
            RunFolderError: If complete runs were not made at the same budgets.
        """
        complete = [run for run in self.runs.values() if run.complete]
        budgets = complete[0].budgets if complete else np.zeros(0)
        for run in complete:
            if not np.array_equal(run.budgets, budgets):
                raise RunFolderError(
                    f"{run.strategy} with seed {run.seed} was labelled at other budgets than the "
                    "rest: its records belong to another comparison; remove that run and "
                    "compare again"
                )
        return budgets

    def curves(self, strategy: str, seeds: Iterable[int]) -> Floats:
        """Return the metric of a strategy's complete runs with these seeds [S, B]."""
        return np.stack([run.curve(self.metric) for run in self.runs_of(strategy, seeds)])
