"""The present state of every sample: what a pool asks of its ledger, and the one in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from steepest.core.journal import Entry
from steepest.core.seeds import SampleId
from steepest.errors import InputError, PoolError
from steepest.pool.states import (
    END,
    START,
    Event,
    State,
    Verb,
    entry_event,
    entry_events,
    fitting_verbs,
)
from steepest.pool.values import Label, copy_label

_STATES = tuple(State)
_CODES = {state: code for code, state in enumerate(_STATES)}


class Ledger(Protocol):
    """Storage of the states of a pool's samples.

    Attributes:
        atomic: Whether a change that fails leaves nothing behind.
    """

    atomic: bool

    def __len__(self) -> int:
        """Return the number of samples."""

    def __contains__(self, sample: SampleId) -> bool:
        """Decide whether a sample is in the pool."""

    def transaction(self) -> AbstractContextManager[None]:
        """Make the changes within it one change, if the ledger can."""

    def check(self, verb: Verb, ids: Sequence[SampleId]) -> None:
        """Raise if a verb is not possible; change nothing."""

    def apply(self, entry: Entry) -> None:
        """Take in one entry that was checked."""

    def normal(self, labels: Sequence[Label]) -> list[Label]:
        """Return plain labels as the ledger would give them back."""

    def state(self, sample: SampleId) -> State:
        """Return where a sample stands."""

    def label_of(self, sample: SampleId) -> Label:
        """Return the label of a labelled sample."""

    def ids(self, state: State | None) -> list[SampleId]:
        """Return all ids, or those in one state, in pool order."""

    def taken(self) -> list[SampleId]:
        """Return the samples that cannot be asked for now, in pool order."""

    def labelled(self) -> tuple[list[SampleId], list[Label]]:
        """Return the labelled ids in pool order and their labels."""

    def counts(self) -> dict[State, int]:
        """Return how many samples are in each state."""

    def cycle_of(self, sample: SampleId) -> int | None:
        """Return the cycle of a sample's last change, or None if there was none."""

    def history(self, sample: SampleId) -> list[Event]:
        """Return all that happened to one sample, oldest first."""

    def events(self) -> Iterator[Event]:
        """Yield all that happened, oldest first."""


class MemoryLedger:
    """States, labels and past of a fixed set of samples, built up entry by entry.

    A million samples are common, so states are bytes and the past is the entries themselves,
    with their numbers kept per sample that was ever touched.

    Args:
        ids: Distinct plain ids [N] in pool order.
    """

    atomic = False

    def __init__(self, ids: Sequence[SampleId]) -> None:
        self._position = {i: position for position, i in enumerate(ids)}
        self._codes = bytearray(len(ids))  # code 0 is unlabelled
        self._labels: dict[SampleId, Label] = {}  # counts only while the state is labelled
        self._entries: list[Entry] = []
        self._touched: dict[SampleId, list[int]] = {}

    def __len__(self) -> int:
        return len(self._position)

    def __contains__(self, sample: SampleId) -> bool:
        return sample in self._position

    def transaction(self) -> AbstractContextManager[None]:
        """Return a context that changes nothing: every entry stands by itself."""
        return nullcontext()

    def check(self, verb: Verb, ids: Sequence[SampleId]) -> None:
        """Raise if a verb is not possible; change nothing."""
        for sample in ids:
            check_start(verb, sample, self.state(sample))

    def normal(self, labels: Sequence[Label]) -> list[Label]:
        """Return the labels themselves."""
        return list(labels)

    def apply(self, entry: Entry) -> None:
        """Take in one entry that was checked."""
        verb = Verb(entry["entry"])
        code = _CODES[END[verb]]
        self._entries.append(entry)
        sequence = len(self._entries)
        for sample in entry["ids"]:
            self._codes[self._position[sample]] = code
            self._touched.setdefault(sample, []).append(sequence)
        if "labels" in entry:
            self._labels.update(zip(entry["ids"], entry["labels"], strict=True))

    def state(self, sample: SampleId) -> State:
        """Return where a sample stands."""
        return _STATES[self._codes[self._find(sample)]]

    def label_of(self, sample: SampleId) -> Label:
        """Return the label of a labelled sample."""
        if (state := self.state(sample)) is not State.LABELLED:
            raise PoolError(f"sample {sample!r} has no label: it is {state}; label it first")
        return copy_label(self._labels[sample])

    def ids(self, state: State | None) -> list[SampleId]:
        """Return all ids, or those in one state, in pool order."""
        if state is None:
            return list(self._position)
        code = _CODES[state]
        return [i for i, c in zip(self._position, self._codes, strict=True) if c == code]

    def taken(self) -> list[SampleId]:
        """Return the samples that are not unlabelled, in pool order."""
        free = _CODES[State.UNLABELLED]
        return [i for i, c in zip(self._position, self._codes, strict=True) if c != free]

    def labelled(self) -> tuple[list[SampleId], list[Label]]:
        """Return the labelled ids in pool order and their labels."""
        ids = self.ids(State.LABELLED)
        return ids, [copy_label(self._labels[i]) for i in ids]

    def counts(self) -> dict[State, int]:
        """Return how many samples are in each state."""
        return {state: self._codes.count(code) for state, code in _CODES.items()}

    def cycle_of(self, sample: SampleId) -> int | None:
        """Return the cycle of a sample's last change, or None if there was none."""
        self._find(sample)
        past = self._touched.get(sample)
        return int(self._entries[past[-1] - 1]["cycle"]) if past else None

    def history(self, sample: SampleId) -> list[Event]:
        """Return all that happened to one sample, oldest first."""
        self._find(sample)
        events = []
        for sequence in self._touched.get(sample, []):
            entry = self._entries[sequence - 1]
            events.append(entry_event(sequence, entry, entry["ids"].index(sample)))
        return events

    def events(self) -> Iterator[Event]:
        """Yield all that happened, oldest first."""
        for sequence, entry in enumerate(self._entries, start=1):
            yield from entry_events(sequence, entry)

    def _find(self, sample: SampleId) -> int:
        try:
            return self._position[sample]
        except KeyError:
            raise InputError(
                f"sample {sample!r} is not in the pool; use the ids it was created with"
            ) from None


def check_start(verb: Verb, sample: SampleId, state: State) -> None:
    """Refuse a verb that cannot start from a sample's state.

    Raises:
        PoolError: Naming the verbs that can.
    """
    if state not in START[verb]:
        fitting = " or ".join(fitting_verbs(state))
        raise PoolError(f"cannot {verb} sample {sample!r}: it is {state}; use {fitting}")
