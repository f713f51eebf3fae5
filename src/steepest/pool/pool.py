"""The pool: states of samples that survive a kill at any moment."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Self

from steepest.core.journal import Entry, Journal, read_journal
from steepest.core.lock import FileLock
from steepest.core.seeds import SampleId
from steepest.errors import InputError, JournalError, PoolError
from steepest.pool.entries import check_entry, check_pool_ids, make_entry, make_header, read_header
from steepest.pool.ledger import Ledger, MemoryLedger
from steepest.pool.states import Event, State, Verb
from steepest.pool.values import Label, plain_id, plain_ids, plain_labels

_CUT_SHORT = "was cut short in the middle of a change; close it and open it again"


class Pool:
    """States of the samples: unlabelled, queried, labelled or skipped.

    Made by ``create``, ``open`` or ``replay``. A verb takes all its ids or none: everything is
    checked first, then one entry is on the disk, and only then does the pool change. A pool
    with a file is held by one writer until it is closed.

    Attributes:
        path: The journal file, or None for a pool in memory.
        dropped: Bytes of a half-written last entry that were set aside on opening (or passed
            over by ``replay``, which writes nothing).
    """

    def __init__(self, ledger: Ledger, path: Path | None = None) -> None:
        self.path = path
        self.dropped = 0
        self._ledger = ledger
        self._journal: Journal | None = None
        self._lock: FileLock | None = None
        self._refusal = ""
        # A labelling server calls from several threads; check and write must not interleave.
        self._turn = threading.Lock()

    @classmethod
    def create(cls, ids: Sequence[SampleId], path: Path | str | None = None) -> Pool:
        """Start a pool in which every sample is unlabelled.

        Args:
            ids: Distinct ids [N], all whole numbers or all texts.
            path: The journal file to begin; None keeps the pool in memory alone.

        Raises:
            InputError: If the ids cannot make a pool.
            PoolError: If the file is there already.
            RunFolderError: If another process is using it.
        """
        plain = check_pool_ids(ids)
        if path is None:
            return cls(MemoryLedger(plain))
        path = Path(path)
        lock = FileLock(path)
        try:
            pool = cls(MemoryLedger(plain), path)
            pool._journal = _begin_journal(path, make_header(plain))
        except BaseException:
            lock.release()
            raise
        pool._lock = lock
        return pool

    @classmethod
    def open(cls, path: Path | str) -> Pool:
        """Go on with a pool from its journal.

        Raises:
            PoolError: If there is no such file.
            JournalError: If it is damaged or not a pool's journal.
            RunFolderError: If another process is using it.
        """
        path = _require(path)
        lock = FileLock(path)
        try:
            _check_first_line(path)
            size_bytes = path.stat().st_size
            journal = Journal(path)
            pool = cls(_rebuild(path, journal.entries), path)
        except BaseException:
            lock.release()
            raise
        pool.dropped = size_bytes - path.stat().st_size
        pool._journal, pool._lock = journal, lock
        return pool

    @classmethod
    def replay(cls, path: Path | str, until: int | None = None) -> Pool:
        """Show a pool as it was, without holding or changing its file.

        Args:
            path: The journal file.
            until: After how many verb calls; 0 is the pool as created, None is all.
        """
        path = _require(path)
        _check_first_line(path)
        entries, torn = read_journal(path)
        calls = max(len(entries) - 1, 0)
        if until is not None and not 0 <= until <= calls:
            raise InputError(f"until is {until}, but {path} has {calls} calls; use 0 to {calls}")
        pool = cls(_rebuild(path, entries if until is None else entries[: until + 1]), path)
        pool.dropped = len(torn)
        pool._refusal = "is a replay and cannot change; open it to go on"
        return pool

    def close(self) -> None:
        """Let go of the file; the pool can still be read."""
        self._refusal = self._refusal or "is closed; open it again to go on"
        if self._lock is not None:
            self._lock.release()

    def query(self, ids: Sequence[SampleId], *, cycle: int, who: str) -> None:
        """Mark unlabelled samples as waiting for a label."""
        self._change(Verb.QUERY, ids, cycle=cycle, who=who)

    def label(
        self, ids: Sequence[SampleId], labels: Sequence[Label], *, cycle: int, who: str
    ) -> None:
        """Give unlabelled or queried samples their labels."""
        self._change(Verb.LABEL, ids, labels, cycle=cycle, who=who)

    def skip(self, ids: Sequence[SampleId], *, cycle: int, who: str, reason: str = "") -> None:
        """Skip unlabelled or queried samples: they cannot be labelled."""
        self._change(Verb.SKIP, ids, cycle=cycle, who=who, reason=reason)

    def relabel(
        self, ids: Sequence[SampleId], labels: Sequence[Label], *, cycle: int, who: str
    ) -> None:
        """Correct the labels of labelled samples; the history keeps the old ones."""
        self._change(Verb.RELABEL, ids, labels, cycle=cycle, who=who)

    def unlabel(self, ids: Sequence[SampleId], *, cycle: int, who: str) -> None:
        """Make queried, labelled or skipped samples unlabelled again."""
        self._change(Verb.UNLABEL, ids, cycle=cycle, who=who)

    def state(self, sample: SampleId) -> State:
        """Return where a sample stands."""
        return self._ledger.state(plain_id(sample))

    def label_of(self, sample: SampleId) -> Label:
        """Return the label of a labelled sample.

        Raises:
            PoolError: If it is not labelled.
        """
        return self._ledger.label_of(plain_id(sample))

    def ids(self, state: State | None = None) -> list[SampleId]:
        """Return all ids, or those in one state, in pool order."""
        return self._ledger.ids(state)

    def taken(self) -> list[SampleId]:
        """Return the samples that cannot be asked for: queried, labelled or skipped."""
        return self._ledger.taken()

    def labelled(self) -> tuple[list[SampleId], list[Label]]:
        """Return the labelled ids in pool order and their labels."""
        return self._ledger.labelled()

    def counts(self) -> dict[State, int]:
        """Return how many samples are in each state."""
        return self._ledger.counts()

    def normal(self, labels: Sequence[Label]) -> list[Label]:
        """Return labels as the pool would give them back: a class's number for its name, say."""
        return self._ledger.normal(plain_labels(labels))

    def transaction(self) -> AbstractContextManager[None]:
        """Make the verbs within it one change, all or none; in a journal each stands by itself."""
        return self._ledger.transaction()

    def cycle_of(self, sample: SampleId) -> int | None:
        """Return the cycle of a sample's last change, or None if there was none."""
        return self._ledger.cycle_of(plain_id(sample))

    def history(self, sample: SampleId) -> list[Event]:
        """Return all that happened to one sample, oldest first."""
        return self._ledger.history(plain_id(sample))

    def events(self) -> Iterator[Event]:
        """Yield all that happened, oldest first."""
        return self._ledger.events()

    def __len__(self) -> int:
        return len(self._ledger)

    def __contains__(self, sample: object) -> bool:
        try:
            return plain_id(sample) in self._ledger
        except InputError:
            return False

    def __repr__(self) -> str:
        counted = ", ".join(f"{count} {state}" for state, count in self.counts().items())
        return f"Pool({self.path or 'in memory'}: {counted})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _change(
        self,
        verb: Verb,
        ids: Sequence[SampleId],
        labels: Sequence[Label] | None = None,
        *,
        cycle: int,
        who: str,
        reason: str = "",
    ) -> None:
        given = None if labels is None else plain_labels(labels)
        entry = make_entry(verb, plain_ids(ids), given, cycle, who)
        if reason:
            entry["reason"] = reason
        check_entry(entry)
        with self._ledger.transaction(), self._turn:
            if self._refusal:
                raise PoolError(f"{self.path or 'the pool'} {self._refusal}")
            self._ledger.check(verb, entry["ids"])
            if entry["ids"]:
                self._commit(entry)

    def _commit(self, entry: Entry) -> None:
        if self._ledger.atomic:
            self._ledger.apply(entry)
            return
        # If the disk fails or the user interrupts, memory and file may differ: refuse to write
        # on, because a verb accepted from stale memory would make the journal contradict itself.
        self._refusal = _CUT_SHORT
        if self._journal is not None:
            self._journal.append(entry)
        self._ledger.apply(entry)
        self._refusal = ""


def _require(path: Path | str) -> Path:
    path = Path(path)
    if not path.is_file():
        raise PoolError(f"{path} is not there: create the pool first, or check the name")
    return path


def _begin_journal(path: Path, header: Entry) -> Journal:
    """Write the header beside the file and move it there, so that it is never half there."""
    if path.exists():
        raise PoolError(f"{path} is there already: open it, or choose another file")
    draft = path.with_name(path.name + ".new")
    draft.unlink(missing_ok=True)
    journal = Journal(draft)
    journal.append(header)
    draft.replace(path)
    journal.path = path
    return journal


def _check_first_line(path: Path) -> None:
    """Refuse a file that is no pool's journal before anything of it is set aside as torn."""
    try:
        with path.open("rb") as file:
            first, more = file.readline(), file.read(1)
    except OSError as error:
        raise JournalError(f"{path}: cannot be read ({error.strerror})") from error
    if not first:
        raise JournalError(
            f"{path}: is empty, and a pool's header and labels are gone: restore it from a copy"
        )
    whole = first.startswith(b'{"entry":"pool",') and first.endswith(b"\n")
    if not (whole and (more or read_journal(path)[0])):
        raise JournalError(
            f"{path}: does not start with a pool's header: check the name, or restore the file "
            "from a copy"
        )


def _rebuild(path: Path, entries: Sequence[Entry]) -> MemoryLedger:
    try:
        ledger = MemoryLedger(read_header(entries))
    except InputError as error:
        raise JournalError(f"{path}: {error}") from error
    for line, entry in enumerate(entries[1:], start=2):
        try:
            ledger.check(check_entry(entry), entry["ids"])
        except (InputError, PoolError) as error:
            raise JournalError(
                f"{path}: line {line} cannot follow those before it ({error}); "
                "restore the file from a copy"
            ) from error
        ledger.apply(entry)
    return ledger
