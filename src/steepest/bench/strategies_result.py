"""File format of a measurement of strategies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from steepest.bench.picks import Picks
from steepest.bench.storage import Stored

Status = Literal[
    "measured", "refused", "out-of-memory", "timed-out", "absent", "failed", "unfinished"
]
Kind = Literal["ours", "straightforward", "skactiveml"]


@dataclass(frozen=True)
class StrategyMeasurement:
    """One strategy on one pool.

    Attributes:
        strategy: Its name.
        kind: ``"ours"``, ``"straightforward"`` for the way that writes everything out, or the
            package whose way it is.
        pool: Unlabelled samples.
        status: How it went.
        note: Why there are no numbers, or what to know of them.
        options: What it was given.
        prepare_seconds: Training for the strategy's sake.
        choose_seconds: From the pool to the choice, the pass over the head included. Both are
            core time for a single CPU thread, and by the wall clock otherwise.
        peak_mib: The most memory above what the pool and the model hold.
        picks: How a package's picks compare with ours.
    """

    strategy: str
    kind: Kind
    pool: int
    status: Status
    note: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    prepare_seconds: float | None = None
    choose_seconds: float | None = None
    peak_mib: float | None = None
    picks: Picks | None = None


@dataclass(frozen=True)
class StrategiesResult(Stored):
    """A whole run of ``steepest bench strategies``.

    Attributes:
        threads: CPU threads.
        features: Dimensions of a sample.
        classes: Classes of the head.
        labelled: Labelled samples.
        k: How many are chosen.
        measurements: One for each strategy, kind and pool.
    """

    threads: int
    features: int
    classes: int
    labelled: int
    k: int
    measurements: tuple[StrategyMeasurement, ...]
