"""Choice of the compared metric, where it is not the headline of the task."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from steepest.errors import InputError, UnknownNameError
from steepest.experiment.outcomes import Comparison, Run
from steepest.tasks.base import TASKS
from steepest.tasks.classification import mean_of_classes

LOSS = "loss"
"""The one number of every task of which less is better, so that it cannot be compared."""

_BALANCED = "balanced_accuracy"
_BY_CLASS = "per_class_accuracy"


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
    """Return metrics with the balanced accuracy, if that is asked for and can be worked out."""
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
