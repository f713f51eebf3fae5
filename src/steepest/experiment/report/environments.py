"""Environments of the records, which may differ between runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from steepest.experiment.outcomes import Comparison

HARDWARE = ("device", "threads", "platform")
VERSIONS = ("steepest", "torch", "python")


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
