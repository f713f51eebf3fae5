"""Queries of a loop, read from its pool."""

from __future__ import annotations

import warnings

from steepest.core.seeds import SampleId
from steepest.errors import AllSkippedWarning
from steepest.pool import Pool, State, Verb

MOST_SKIPPED = 10
"""Samples that may be skipped one by one before a run takes it for a mistake."""


def waiting_in(pool: Pool) -> tuple[SampleId, ...]:
    """Return the samples without an answer yet, in the order in which they were asked for."""
    queries = (event for event in pool.events() if event.verb is Verb.QUERY)
    places = {event.id: place for place, event in enumerate(queries)}
    # Somebody else may have asked for others, in a sheet for example.
    ours = [sample for sample in pool.ids(State.QUERIED) if sample in places]
    return tuple(sorted(ours, key=places.__getitem__))


def asked_in(pool: Pool, cycle: int) -> dict[SampleId, str]:
    """Return what was asked for in one round, in order, and who chose it."""
    queries = (event for event in pool.events() if event.verb is Verb.QUERY)
    return {event.id: event.who for event in queries if event.cycle == cycle}


def warn_of_skips(pool: Pool, count: int) -> None:
    """Warn that a run stops because nothing but skips came in.

    Nothing is said while people are asked, nor at the end of a pool.
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
