"""What a loop asked for, read from its pool: so that nothing else has to be kept."""

from __future__ import annotations

from steepest.pool import Pool, State, Verb
from steepest.seeds import SampleId


def waiting_in(pool: Pool) -> tuple[SampleId, ...]:
    """Return the samples without an answer yet, in the order in which they were asked for."""
    queries = (event for event in pool.events() if event.verb is Verb.QUERY)
    places = {event.id: place for place, event in enumerate(queries)}
    return tuple(sorted(pool.ids(State.QUERIED), key=places.__getitem__))


def asked_in(pool: Pool, cycle: int) -> dict[SampleId, str]:
    """Return what was asked for in one round, in order, and who chose it."""
    queries = (event for event in pool.events() if event.verb is Verb.QUERY)
    return {event.id: event.who for event in queries if event.cycle == cycle}
