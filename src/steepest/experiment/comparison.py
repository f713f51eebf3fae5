"""Records of runs in memory: one run or a comparison of many, by the headline or another metric."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from steepest.core.journal import Entry
from steepest.errors import InputError, RunFolderError, UnknownNameError
from steepest.tasks.base import TASKS, Task
from steepest.tasks.classification import mean_of_classes

Floats = npt.NDArray[np.float64]

BASELINE = "random"
HARDWARE = ("device", "threads", "platform")
VERSIONS = ("steepest", "torch", "python")
LOSS = "loss"
"""The one number of every task of which less is better, so that it cannot be compared."""

_BALANCED = "balanced_accuracy"
_BY_CLASS = "per_class_accuracy"


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
    be read from the records, without running the code that a folder names.

    Args:
        task: A task's name.
        metrics: The recorded metrics.
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
    text = label if name == label else f"{label} = {name}"
    return f"{text} ({options})" if options else text


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
        name: The name of the comparison.
        strategies: Labels of the strategies that were requested.
        seeds: Seeds that were requested.
        runs: Every run that was requested, by strategy and seed; a run that has not begun has no
            entries.
        config: The configuration as nested tables.
        commands: Every command that gave records, each once, the first first; those of older
            versions may not be on record.
        versions: Versions of the packages used.
        single: Whether this is one run outside of a comparison.
        variants: Name and options of the strategy behind a label, where they are on record.
        task: The registered task that it is measured as; the configuration's if not given.
        chosen_metric: What is compared instead of the task's headline; None for the headline.
        data: The identity of the data that the runs were made with; empty if it is not on
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
        """The strategy others are compared with: random, else the first; None without others."""
        return self.choose_baseline()

    def choose_baseline(self, name: str | None = None) -> str | None:
        """Return the strategy others are compared with.

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

    @cached_property
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


def recorded(comparison: Comparison, keys: Sequence[str]) -> dict[str, list[Any]]:
    """Return the distinct values that the records have for each key.

    What no record has is as the comparison was described, and left out if that does not say it.
    """
    described = comparison.versions or {}
    environments = [
        entry["environment"]
        for run in comparison.runs.values()
        for entry in run.entries
        if isinstance(entry.get("environment"), dict)
    ]
    found = {
        key: _distinct([e.get(key) for e in environments]) or _distinct([described.get(key)])
        for key in keys
    }
    return {key: values for key, values in found.items() if values}


def _distinct(values: Sequence[Any]) -> list[Any]:
    distinct: list[Any] = []
    for value in values:
        if value is not None and value not in distinct:
            distinct.append(value)
    return distinct


def check_metric(name: str | None, tasks: Iterable[str]) -> None:
    """Refuse a metric that one of these tasks does not have, before anything is run.

    Args:
        name: The metric; None for the headline of each.
        tasks: Names of the tasks.

    Raises:
        UnknownNameError: With the nearest of the task's metrics as the remedy.
    """
    if name is None:
        return
    for task in tasks:
        kind = TASKS.get(task)
        known = (kind.headline, *kind.other_metrics)
        if name not in known:
            raise UnknownNameError(f"metric of {task}", name, known)


def by_metric(comparison: Comparison, name: str | None) -> Comparison:
    """Return a comparison that is about a metric of one's choice.

    Balanced accuracy is worked out from the accuracies by class where a record of an older version
    has these alone.

    Args:
        comparison: The records.
        name: The metric, higher being better; None leaves the comparison as it is.

    Raises:
        InputError: If it cannot be compared, or a record does not have it.
    """
    if name is None:
        return comparison
    if name == LOSS:
        raise InputError(
            f"metric {name!r}: less of it is better, and comparisons are by what is better the "
            f"higher it is; choose one of {_listed(comparison)}"
        )
    runs = {key: _with_metric(run, name, comparison) for key, run in comparison.runs.items()}
    return replace(comparison, runs=runs, chosen_metric=name)


def _with_metric(run: Run, name: str, comparison: Comparison) -> Run:
    entries = []
    for entry in run.entries:
        parts = {part: _completed(entry.get(part), name) for part in ("metrics", "train_metrics")}
        if not _is_number(parts["metrics"].get(name)):
            raise InputError(
                f"metric {name!r}: {run.strategy} with seed {run.seed} does not have it on record "
                f"in cycle {entry['cycle']}; choose one of {_listed(comparison)}"
            )
        entries.append({**entry, **parts})
    return replace(run, entries=tuple(entries))


def _completed(metrics: Mapping[str, Any] | None, name: str) -> dict[str, Any]:
    """Return metrics with the balanced accuracy, if that is requested and can be worked out."""
    known = dict(metrics or {})
    shares = known.get(_BY_CLASS)
    if name != _BALANCED or name in known or not isinstance(shares, list):
        return known
    if any(_is_number(share) for share in shares):
        known[name] = mean_of_classes(shares)
    return known


def _listed(comparison: Comparison) -> str:
    """Return the names of what may be compared, as every record has them."""
    entries = [entry["metrics"] for run in comparison.runs.values() for entry in run.entries]
    full = [_completed(metrics, _BALANCED) for metrics in entries]
    first = dict.fromkeys(full[0]) if full else {}
    found = [key for key in first if all(_is_number(metrics.get(key)) for metrics in full)]
    return ", ".join(key for key in found if key != LOSS) or comparison.metric


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)
