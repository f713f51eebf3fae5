"""The four states of a sample, the verbs between them, and the events that the pool remembers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from steepest.core.journal import Entry
from steepest.core.seeds import SampleId
from steepest.pool.values import Label, copy_label


class State(StrEnum):
    """State of a sample."""

    UNLABELLED = "unlabelled"
    QUERIED = "queried"
    LABELLED = "labelled"
    SKIPPED = "skipped"


class Verb(StrEnum):
    """A change of state."""

    QUERY = "query"
    LABEL = "label"
    SKIP = "skip"
    RELABEL = "relabel"
    UNLABEL = "unlabel"


START: dict[Verb, frozenset[State]] = {
    Verb.QUERY: frozenset({State.UNLABELLED}),
    Verb.LABEL: frozenset({State.UNLABELLED, State.QUERIED}),
    Verb.SKIP: frozenset({State.UNLABELLED, State.QUERIED}),
    Verb.RELABEL: frozenset({State.LABELLED}),
    Verb.UNLABEL: frozenset({State.QUERIED, State.LABELLED, State.SKIPPED}),
}
"""The states each verb may start from."""

END: dict[Verb, State] = {
    Verb.QUERY: State.QUERIED,
    Verb.LABEL: State.LABELLED,
    Verb.SKIP: State.SKIPPED,
    Verb.RELABEL: State.LABELLED,
    Verb.UNLABEL: State.UNLABELLED,
}
"""The state each verb leads to."""

GIVES_LABELS = frozenset({Verb.LABEL, Verb.RELABEL})
"""The verbs that carry one label per sample."""


def fitting_verbs(state: State) -> list[Verb]:
    """Return the verbs that may start from a state."""
    return [verb for verb, start in START.items() if state in start]


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
