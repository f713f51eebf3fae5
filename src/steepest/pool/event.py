"""One change of state of one sample, as the pool remembers it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from steepest.core.journal import Entry
from steepest.core.seeds import SampleId
from steepest.pool.states import Verb
from steepest.pool.values import Label, copy_label


@dataclass(frozen=True)
class Event:
    """A change of one sample's state.

    Attributes:
        sequence: Number of the call that made the change, from 1; all samples of a call share
            it, and ``Pool.replay(path, until=sequence)`` shows the pool right after it.
        time: When, in UTC.
        verb: What was done.
        who: By whom.
        cycle: In which cycle.
        id: To which sample.
        label: The label given, or None where the verb gives none.
        reason: Why the sample was skipped, if anyone said.
    """

    sequence: int
    time: datetime
    verb: Verb
    who: str
    cycle: int
    id: SampleId
    label: Label | None = None
    reason: str = ""


def entry_events(sequence: int, entry: Entry) -> Iterator[Event]:
    """Yield the events of one entry, sample by sample."""
    for place in range(len(entry["ids"])):
        yield entry_event(sequence, entry, place)


def entry_event(sequence: int, entry: Entry, place: int) -> Event:
    """Return the event of the sample at one place of an entry."""
    return Event(
        sequence=sequence,
        time=datetime.fromisoformat(entry["time"]),
        verb=Verb(entry["entry"]),
        who=entry["who"],
        cycle=entry["cycle"],
        id=entry["ids"][place],
        label=copy_label(entry["labels"][place]) if "labels" in entry else None,
        reason=entry.get("reason", ""),
    )
