"""File format of a measurement of one cycle by every strategy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from steepest.bench.storage import Stored


@dataclass(frozen=True)
class CycleMeasurement:
    """One strategy in one cycle.

    Attributes:
        strategy: Its name, or the label of a variant.
        status: How it went.
        note: Why there are no numbers.
        options: Its options.
        training_seconds: Training the model: that of others, if its weights were taken over.
        own_training: Whether the strategy changes the training, so that it had one of its own.
        auxiliary_seconds: Training of other things for the strategy's sake.
        choosing_seconds: From the trained model to the choice.
        peak_mib: The most memory while choosing or training for it.
        accuracy: The model's headline metric on the test set, before the choice.
    """

    strategy: str
    status: Literal["measured", "refused", "unfinished"]
    note: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    training_seconds: float | None = None
    own_training: bool | None = None
    auxiliary_seconds: float | None = None
    choosing_seconds: float | None = None
    peak_mib: float | None = None
    accuracy: float | None = None


@dataclass(frozen=True)
class CycleResult(Stored):
    """A whole run of ``steepest bench cycle``.

    Attributes:
        config: The experiment, without its strategy.
        measurements: One for each strategy.
    """

    config: Mapping[str, Any]
    measurements: tuple[CycleMeasurement, ...]
