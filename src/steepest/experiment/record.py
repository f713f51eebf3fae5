"""One record per cycle: all that happened, as one line of JSON."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from steepest.core.memory import Measurement
from steepest.core.seeds import SampleId
from steepest.core.tables import from_table, to_table
from steepest.errors import JournalError, SteepestError
from steepest.selecting.regime import Regime

LABELLED_MAPS = "maps of labelled samples"
"""For what the loop itself reads sealed labels: maps are too large for the pool."""


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Seconds and peak memory of a stage.

    Attributes:
        seconds: Wall-clock time.
        peak_bytes: Highest memory.
        epochs: Passes over the labelled samples, for a training.
        shared: Whether this is what the same training cost in another run, whose weights were
            taken over.
    """

    seconds: float
    peak_bytes: int
    epochs: int | None = None
    shared: bool = False


def cost_of(measurement: Measurement | None) -> Cost | None:
    """Return measurements as they are recorded."""
    if measurement is None:
        return None
    return Cost(seconds=measurement.seconds, peak_bytes=measurement.peak_bytes)


def added(one: Cost | None, other: Cost | None) -> Cost | None:
    """Return the cost of two stages, one after the other."""
    if one is None or other is None:
        return one or other
    peak_bytes = max(one.peak_bytes, other.peak_bytes)
    return Cost(seconds=one.seconds + other.seconds, peak_bytes=peak_bytes)


@dataclass(frozen=True, kw_only=True)
class Wish:
    """A sample and how much it was wanted."""

    id: SampleId
    score: float


@dataclass(frozen=True, kw_only=True)
class Record:
    """One cycle of one run.

    Attributes:
        cycle: Counted from 0.
        strategy: Name of the strategy.
        options: Its options.
        seed: The run's seed.
        labelled: Labels that this cycle's model was trained on.
        unlabelled: Samples without a label at that time.
        subset: Samples that were scored; 0 in the last cycle.
        metrics: On the test set, with the last epoch's weights.
        train_metrics: On the labelled samples, without augmentation.
        selected: Ids chosen after this training, best first; empty in the last cycle.
        selected_scores: Their scores.
        wanted: The first few of them.
        unwanted: The lowest scores of the subset, lowest first.
        regime: Diagnosis of the selection.
        model: Fingerprint of the trained model.
        company: Fingerprints of what was kept beside it: a committee by number, a head as extra.
            Runs of older versions have none.
        training: The cost of training.
        scoring: The cost of choosing.
        auxiliary: The cost of training for the strategy, without the model; None without any.
        environment: Versions and hardware, and a mark of each module of the user's own code.
        purposes: What sealed training labels were read for while the cycle trained and chose, each
            once. Training on label maps reads those of labelled samples; anything else is the
            doing of the user's own code.
    """

    cycle: int
    strategy: str
    options: Mapping[str, Any]
    seed: int
    labelled: int
    unlabelled: int
    subset: int
    metrics: Mapping[str, Any]
    train_metrics: Mapping[str, Any]
    selected: tuple[SampleId, ...]
    selected_scores: tuple[float, ...]
    wanted: tuple[Wish, ...]
    unwanted: tuple[Wish, ...]
    regime: Regime | None
    model: str
    training: Cost
    scoring: Cost | None
    environment: Mapping[str, Any]
    auxiliary: Cost | None = None
    company: Mapping[str, str] = field(default_factory=dict)
    purposes: tuple[str, ...] = ()

    def to_table(self) -> dict[str, Any]:
        """Return the record as plain tables."""
        return to_table(self)

    @classmethod
    def from_table(cls, table: Mapping[str, Any], where: str) -> Record:
        """Read a record back.

        Raises:
            JournalError: If it is not one.
        """
        try:
            found = from_table(cls, table)
        except SteepestError as error:
            raise JournalError(f"{where}: not a record of this version ({error})") from error
        if wrong := _find_wrong(found):
            raise JournalError(
                f"{where}: no run writes a record like that of cycle {found.cycle} ({wrong}); "
                "restore the file from a copy, or remove this run and make it again"
            )
        return found


def _find_wrong(record: Record) -> str:
    """Name values that cannot be a result; nothing if all can."""
    for name in ("cycle", "labelled", "unlabelled", "subset"):
        if (count := getattr(record, name)) < 0:
            return f"{name} is {count}"
    for kind, metrics in (("metrics", record.metrics), ("train_metrics", record.train_metrics)):
        for name, value in metrics.items():
            # Classes that do not occur have no value.
            several = isinstance(value, (list, tuple)) and len(value) > 0
            parts = [part for part in value if part is not None] if several else [value]
            if not all(_is_number(part) for part in parts):
                return f"{kind}.{name} is {value!r}"
    return ""


def _is_number(value: object) -> bool:
    kind = isinstance(value, (int, float)) and not isinstance(value, bool)
    return kind and math.isfinite(value)  # type: ignore[arg-type]


def expected_end(records: Sequence[Record], k: int, *, last: bool) -> float:
    """Return when the next cycle would end, judging by the one before and the labels it adds.

    Args:
        records: Of the cycles that are done.
        k: Labels that a cycle adds.
        last: Whether it is the last one, which chooses nothing: that may save most of the time.
    """
    if not records:
        return time.time()
    before = records[-1]
    spent = before.training.seconds * (1 + k / before.labelled)
    others = () if last else (before.scoring, before.auxiliary)
    return time.time() + spent + sum(0 if cost is None else cost.seconds for cost in others)
