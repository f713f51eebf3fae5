"""Stopping rules of a loop."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from steepest.errors import InputError, UnknownNameError
from steepest.loop.round import ONLY, Round

Until = Callable[[Sequence[Round]], bool]
"""Says of the rounds so far, one at least, whether they are enough."""


@dataclass(frozen=True)
class Reached:
    """A metric has been at least so high in each of the last rounds.

    Attributes:
        value: How high.
        metric: Its name among what ``evaluate`` returns.
        rounds: How many rounds in a row.
    """

    value: float
    metric: str = ONLY
    rounds: int = 1

    def __post_init__(self) -> None:
        _check_rounds(self.rounds)
        _check_number("value", self.value)

    def __call__(self, records: Sequence[Round]) -> bool:
        """Say whether it has."""
        last = _values(records, self.metric)[-self.rounds :]
        return len(last) == self.rounds and min(last) >= self.value


@dataclass(frozen=True)
class Flat:
    """The best value of a metric rose by less than a gain in the last rounds.

    Attributes:
        gain: The smallest total gain expected of the last rounds.
        metric: Its name among what ``evaluate`` returns.
        rounds: How many rounds count as the last ones.
    """

    gain: float
    metric: str = ONLY
    rounds: int = 3

    def __post_init__(self) -> None:
        _check_rounds(self.rounds)
        _check_number("gain", self.gain)

    def __call__(self, records: Sequence[Round]) -> bool:
        """Say whether it did."""
        values = _values(records, self.metric)
        before, last = values[: -self.rounds], values[-self.rounds :]
        return bool(before) and max(last) - max(before) < self.gain


def is_enough(records: Sequence[Round], until: Until | None) -> bool:
    """Say whether a loop may stop after these rounds; before the first one it may not."""
    return until is not None and bool(records) and bool(until(records))


def _check_rounds(rounds: int) -> None:
    if rounds < 1:
        raise InputError(f"rounds must be at least 1, not {rounds}")


def _check_number(name: str, value: float) -> None:
    if math.isnan(value):
        raise InputError(f"{name} is {value}, which no metric can be compared with")


def _values(records: Sequence[Round], metric: str) -> list[float]:
    for record in records:
        if not record.metrics:
            raise InputError(
                f"round {record.number} has no metric to stop by: give the loop evaluate="
            )
        if metric not in record.metrics:
            raise UnknownNameError("metric", metric, record.metrics)
    return [record.metrics[metric] for record in records]
