"""Rounds of a loop: records, times and queries."""

from __future__ import annotations

import hashlib
import json
import math
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import Any

from steepest.core.seeds import SampleId
from steepest.core.tables import from_table, to_table
from steepest.errors import AllSkippedWarning, InputError, JournalError, SteepestError
from steepest.pool import Pool, State, Verb
from steepest.pool.values import Label

ONLY = "metric"
"""The name of the metric if ``evaluate`` returns a single number."""


@dataclass(frozen=True, kw_only=True)
class Round:
    """One round: new labels, a model trained on all labels, and its metrics.

    Attributes:
        number: Counted from 1.
        labelled: How many labels the model learnt from.
        learnt_from: Digest of those labels and their ids.
        metrics: The result of ``evaluate``; empty without it.
        asked: The samples asked for in this round, the most wanted first.
        strategy: Who chose them; empty if nothing was requested.
        seconds: The time that ``choose``, ``label``, ``fit`` and ``evaluate`` took. After a kill,
            what they took since.
    """

    number: int
    labelled: int
    learnt_from: str
    metrics: Mapping[str, float] = field(default_factory=dict)
    asked: tuple[SampleId, ...] = ()
    strategy: str = ""
    seconds: Mapping[str, float] = field(default_factory=dict)

    def to_table(self) -> dict[str, Any]:
        """Return the record as plain tables."""
        table: dict[str, Any] = to_table(self)
        return table

    @classmethod
    def from_table(cls, table: Mapping[str, Any], where: str) -> Round:
        """Read a record back.

        Raises:
            JournalError: If it is not one.
        """
        try:
            return from_table(cls, table)
        except SteepestError as error:
            raise JournalError(f"{where}: not a round of this version ({error})") from error


def digest(ids: Sequence[SampleId], labels: Sequence[Label]) -> str:
    """Return 16 hex digits that change with any label or sample."""
    text = json.dumps([list(ids), list(labels)], ensure_ascii=False)
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def check_rounds(rounds: Any) -> int:  # noqa: ANN401
    """Return a number of rounds, if it is one.

    Raises:
        InputError: If it is none.
    """
    if isinstance(rounds, bool) or not isinstance(rounds, Integral) or rounds < 0:
        raise InputError(f"rounds must be a whole number of at least 0, not {rounds!r}")
    return int(rounds)


def as_metrics(metrics: object) -> dict[str, float]:
    """Return the result of ``evaluate`` as numbers by name.

    Raises:
        InputError: If it is neither a number nor numbers by name.
    """
    named = metrics if isinstance(metrics, Mapping) else {ONLY: metrics}
    return {str(name): _number(value, str(name)) for name, value in named.items()}


def _number(value: Any, name: str) -> float:  # noqa: ANN401
    plain = value.tolist() if hasattr(value, "tolist") else value
    if not isinstance(plain, Real) or not math.isfinite(plain):
        raise InputError(
            f"evaluate returned {value!r} for {name!r}: return a finite number, or numbers by name "
            "without those that are not"
        )
    return float(plain)


class Stopwatch:
    """Adds up the seconds of each stage."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}

    @contextmanager
    def time(self, stage: str) -> Iterator[None]:
        """Count the time inside for a stage, also if it fails."""
        start = time.perf_counter()
        try:
            yield
        finally:
            spent = time.perf_counter() - start
            self._seconds[stage] = self._seconds.get(stage, 0.0) + spent

    def take(self) -> dict[str, float]:
        """Return the seconds by stage, and reset them."""
        taken, self._seconds = self._seconds, {}
        return {stage: round(spent, 6) for stage, spent in taken.items()}


MOST_SKIPPED = 10
"""Samples that may be skipped one by one before a run takes it for a mistake."""


def waiting_in(pool: Pool) -> tuple[SampleId, ...]:
    """Return the samples without an answer yet, in the order in which they were requested."""
    queries = (event for event in pool.events() if event.verb is Verb.QUERY)
    places = {event.id: place for place, event in enumerate(queries)}
    # Somebody else may have asked for others, in a sheet for example.
    ours = [sample for sample in pool.ids(State.QUERIED) if sample in places]
    return tuple(sorted(ours, key=places.__getitem__))


def asked_in(pool: Pool, cycle: int) -> dict[SampleId, str]:
    """Return the queries of one round in order, and the strategy that chose them."""
    queries = (event for event in pool.events() if event.verb is Verb.QUERY)
    return {event.id: event.who for event in queries if event.cycle == cycle}


def warn_of_skips(pool: Pool, count: int) -> None:
    """Warn that a run stops because nothing but skips came in.

    No warning while annotators are working, nor at the end of a pool.
    """
    left = pool.counts()
    over = left[State.LABELLED] and not left[State.UNLABELLED]
    if count and not left[State.QUERIED] and not over:
        warnings.warn(
            f"all {count} samples that were asked for were skipped and none was labelled, so the "
            "run stops here: call it again to go on. An answer of None skips a sample for good: "
            "leave it out to be asked again; loop.pool.unlabel takes a skip back",
            AllSkippedWarning,
            stacklevel=4,
        )
