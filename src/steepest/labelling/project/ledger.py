"""The pool of a project: its samples' states and the verbs that change them, in the store."""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from steepest.core.journal import Entry
from steepest.core.parsing import parse_json
from steepest.core.seeds import SampleId
from steepest.errors import InputError, JournalError, PoolError
from steepest.labelling.project.consensus import refresh
from steepest.labelling.project.copies import SPLIT_CONTENTS, mark_copies
from steepest.labelling.project.metadata import (
    About,
    LabelForms,
    list_classes,
    load_about,
    save_about,
)
from steepest.labelling.project.store import Store
from steepest.pool import Event, Pool, State, Verb
from steepest.pool.ledger import check_start
from steepest.pool.values import Label

# What people say about files that are byte for byte the same holds for all of them.
_LABEL = f"""ifnull(i.labels, (SELECT o.labels FROM images o WHERE o.number = i.copy_of
    AND i.votes = 0 AND o.content NOT IN ({SPLIT_CONTENTS})))"""  # noqa: S608
# Where people are split evenly, somebody has still to say what it is.
_STATE = f"""CASE WHEN {_LABEL} IS NOT NULL THEN '{State.LABELLED}'
    WHEN i.votes > 0 THEN '{State.QUERIED}' WHEN i.skips > 0 THEN '{State.SKIPPED}'
    WHEN i.asked IS NOT NULL THEN '{State.QUERIED}' ELSE '{State.UNLABELLED}' END"""
_HERE = "i.missing = 0"
_HELD = "EXISTS (SELECT 1 FROM assignments s WHERE s.image = i.number AND s.expires > :now)"

_VERBS = {"label": Verb.LABEL, "relabel": Verb.RELABEL, "skip": Verb.SKIP, "undo": Verb.UNLABEL}
_QUESTIONS = {"ask": Verb.QUERY, "withdraw": Verb.UNLABEL}
# What is undone by an entry of a pool is told by what follows it in that entry.
_EVENTS = """SELECT * FROM (
    SELECT a.number AS place, 0 AS later, a.at, a.kind, a.annotator AS who,
        ifnull(a.round, 0) AS round, a.labels, a.reason, a.image, i.id
    FROM answers a JOIN images i ON i.number = a.image
    WHERE NOT (a.kind = 'undo' AND a.round IS NOT NULL)
    UNION ALL
    SELECT q.answers, q.number, q.at, q.kind, q.who, q.round, NULL, '', q.image, i.id
    FROM questions q JOIN images i ON i.number = q.image
    WHERE q.kind = 'withdraw' OR q.door = :door)
    WHERE :image IS NULL OR image = :image ORDER BY place, later"""


class StoredLedger:
    """States, labels and past of the samples of a project, as they are at every moment.

    Several processes may have one each: what another has changed shows in the next call. The label
    of a sample is what people say together, whether on a page, in files or from a program. Samples
    whose files are gone are left out.

    Args:
        store: The project's file.
        door: Where questions are asked from; those of other doors make samples wait, but are not
            among the events.
    """

    atomic = True

    def __init__(self, store: Store, door: str = "") -> None:
        self._store = store
        self._door = door
        self._own = threading.local()
        with store.reading() as connection:
            self._numbered = load_about(connection).numbered

    def __len__(self) -> int:
        with self.connection() as connection:
            return _one(connection, f"SELECT count(*) FROM images i WHERE {_HERE}")  # noqa: S608

    def __contains__(self, sample: SampleId) -> bool:
        with self.connection() as connection:
            return _find(connection, sample, numbered=self._numbered) is not None

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Make all changes within it one: on disk at the end, or not made at all."""
        if self._held is not None:
            yield
            return
        with self._store.writing() as connection:
            self._own.connection, self._own.forms = connection, None
            try:
                yield
            finally:
                self._own.connection = self._own.forms = None

    def check(self, verb: Verb, ids: Sequence[SampleId]) -> None:
        """Raise if a verb is not possible; change nothing."""
        with self.connection() as connection:
            for sample in ids:
                row = self._require(connection, sample)
                check_start(verb, sample, State(row["state"]))
                follows = row["state"] == State.LABELLED and row["own"] is None
                if verb is Verb.UNLABEL and follows:
                    raise PoolError(
                        f"cannot {verb} sample {sample!r}: it has the label of a file with the "
                        "same bytes; use relabel"
                    )

    def apply(self, entry: Entry) -> None:
        """Take in one entry that was checked; within a transaction."""
        if (connection := self._held) is None:
            raise RuntimeError("apply is called within a transaction")
        Change(connection, entry, self._door, self._forms(connection)).carry_out()

    def normal(self, labels: Sequence[Label]) -> list[Label]:
        """Return plain labels as they would be given back."""
        with self.connection() as connection:
            forms = self._forms(connection)
            return [forms.normal(label) for label in labels]

    def state(self, sample: SampleId) -> State:
        """Return the state of a sample."""
        with self.connection() as connection:
            return State(self._require(connection, sample)["state"])

    def label_of(self, sample: SampleId) -> Label:
        """Return the label of a labelled sample."""
        with self.connection() as connection:
            row = self._require(connection, sample)
            if row["label"] is None:
                state = row["state"]
                raise PoolError(f"sample {sample!r} has no label: it is {state}; label it first")
            return self._forms(connection).decode(row["label"])

    def ids(self, state: State | None) -> list[SampleId]:
        """Return all ids, or those in one state, in pool order."""
        return self._list_ids("1" if state is None else f"{_STATE} = '{state}'")

    def taken(self) -> list[SampleId]:
        """Return the samples that are not unlabelled, or that somebody is looking at."""
        return self._list_ids(f"({_STATE} <> '{State.UNLABELLED}' OR {_HELD})")

    def labelled(self) -> tuple[list[SampleId], list[Label]]:
        """Return the labelled ids in pool order and their labels, all at one moment."""
        with self.connection() as connection:
            rows = connection.execute(
                f"SELECT i.id, {_LABEL} AS label FROM images i WHERE {_HERE} "  # noqa: S608
                "AND label IS NOT NULL ORDER BY i.number"
            ).fetchall()
            forms = self._forms(connection)
        return [self._read(row["id"]) for row in rows], [forms.decode(row["label"]) for row in rows]

    def counts(self) -> dict[State, int]:
        """Return how many samples are in each state."""
        with self.connection() as connection:
            rows = connection.execute(
                f"SELECT {_STATE} AS state, count(*) FROM images i WHERE {_HERE} GROUP BY 1"  # noqa: S608
            ).fetchall()
        return dict.fromkeys(State, 0) | {State(name): count for name, count in rows}

    def cycle_of(self, sample: SampleId) -> int | None:
        """Return the cycle of a sample's last change, or None if there was none."""
        past = self.history(sample)
        return past[-1].cycle if past else None

    def history(self, sample: SampleId) -> list[Event]:
        """Return all that happened to one sample, oldest first."""
        with self.connection() as connection:
            return self._list_events(connection, self._require(connection, sample)["number"])

    def events(self) -> Iterator[Event]:
        """Yield all that happened, oldest first."""
        with self.connection() as connection:
            found = self._list_events(connection, None)
        yield from found

    def copies(self) -> dict[SampleId, SampleId]:
        """Return the sample that each copy has its label from."""
        with self.connection() as connection:
            rows = connection.execute(
                "SELECT i.id, o.id FROM images i JOIN images o ON o.number = i.copy_of"
            ).fetchall()
        return {self._read(copy): self._read(original) for copy, original in rows}

    def _read(self, written: str) -> SampleId:
        return int(written) if self._numbered else written

    def _require(self, connection: sqlite3.Connection, sample: SampleId) -> sqlite3.Row:
        return require_sample(connection, sample, numbered=self._numbered)

    def _forms(self, connection: sqlite3.Connection) -> LabelForms:
        """Return how labels are written; what a transaction changes of that, it knows."""
        if connection is not self._held:
            return LabelForms(connection)
        if self._own.forms is None:
            self._own.forms = LabelForms(connection)
        forms: LabelForms = self._own.forms
        return forms

    @property
    def _held(self) -> sqlite3.Connection | None:
        """The connection of this thread's transaction."""
        return getattr(self._own, "connection", None)

    @contextmanager
    def connection(self) -> Iterator[sqlite3.Connection]:
        """Lend the connection of this thread's transaction, or one to read by."""
        if self._held is not None:
            yield self._held
            return
        with self._store.reading() as connection:
            yield connection

    def _list_ids(self, condition: str) -> list[SampleId]:
        with self.connection() as connection:
            rows = connection.execute(
                f"SELECT i.id FROM images i WHERE {_HERE} AND {condition} ORDER BY i.number",  # noqa: S608
                {"now": time.time()},
            ).fetchall()
        return [self._read(row["id"]) for row in rows]

    def _list_events(self, connection: sqlite3.Connection, image: int | None) -> list[Event]:
        rows = connection.execute(_EVENTS, {"door": self._door, "image": image})
        forms = self._forms(connection)
        return [
            Event(
                sequence=sequence,
                time=datetime.fromtimestamp(row["at"], UTC),
                verb=(_QUESTIONS if row["later"] else _VERBS)[row["kind"]],
                who=row["who"],
                cycle=row["round"],
                id=self._read(row["id"]),
                label=None if row["labels"] is None else forms.decode(row["labels"]),
                reason=row["reason"],
            )
            for sequence, row in enumerate(rows, start=1)
        ]


class Change:
    """Carries out one entry of a pool.

    Args:
        connection: Within a transaction.
        entry: The entry, checked.
        door: Where questions are asked from.
        forms: How labels are written.
    """

    def __init__(
        self, connection: sqlite3.Connection, entry: Entry, door: str, forms: LabelForms
    ) -> None:
        self._connection = connection
        self._entry = entry
        self._door = door
        self._at = datetime.fromisoformat(entry["time"]).timestamp()
        self._forms = forms

    def carry_out(self) -> None:
        """Write an event and its consequences."""
        verb, labels = Verb(self._entry["entry"]), self._entry.get("labels")
        for place, sample in enumerate(self._entry["ids"]):
            numbered = self._forms.about.numbered
            row = require_sample(self._connection, sample, numbered=numbered)
            number = int(row["number"])
            if verb is Verb.QUERY:
                self._ask(number)
                continue
            if verb in (Verb.UNLABEL, Verb.RELABEL, Verb.SKIP):
                self._take_back(number)
            if verb is Verb.UNLABEL:
                self._note_question("withdraw", number)
                self._connection.execute(
                    "UPDATE images SET asked = NULL WHERE number = ?", (number,)
                )
            else:
                text = None if labels is None else self._forms.encode(labels[place])
                self._answer(verb, number, text)
            refresh(self._connection, number, self._forms.settings)
        if _one(self._connection, "SELECT EXISTS (SELECT 1 FROM images WHERE content NOT NULL)"):
            mark_copies(self._connection, self._forms.settings)

    def _ask(self, image: int) -> None:
        number = self._note_question("ask", image)
        self._connection.execute("UPDATE images SET asked = ? WHERE number = ?", (number, image))

    def _note_question(self, kind: str, image: int) -> int:
        return int(
            self._connection.execute(
                """INSERT INTO questions (at, door, round, who, kind, image, answers)
                VALUES (?, ?, ?, ?, ?, ?, (SELECT ifnull(max(number), 0) FROM answers))""",
                (self._at, self._door, self._entry["cycle"], self._entry["who"], kind, image),
            ).lastrowid
            or 0
        )

    def _take_back(self, image: int) -> None:
        """Take back all current answers about a sample."""
        self._connection.execute(
            """INSERT INTO answers (at, annotator, image, kind, undoes, round)
            SELECT ?, ?, image, 'undo', answer, ? FROM current WHERE image = ?""",
            (self._at, self._entry["who"], self._entry["cycle"], image),
        )
        self._connection.execute("DELETE FROM current WHERE image = ?", (image,))

    def _answer(self, verb: Verb, image: int, text: str | None) -> None:
        who = self._entry["who"]
        number = self._connection.execute(
            """INSERT INTO answers (at, annotator, image, kind, labels, round, reason, browser)
            VALUES (?, ?, ?, ?, ?, ?, ?, ?)""",
            (
                *(self._at, who, image, str(verb), text),
                # It is no browser's, so that no page takes it back.
                *(self._entry["cycle"], self._entry.get("reason", ""), self._door or "python"),
            ),
        ).lastrowid
        self._connection.execute(
            "INSERT OR REPLACE INTO current VALUES (?, ?, ?)", (image, who, number)
        )
        self._connection.execute(
            "DELETE FROM assignments WHERE image = ? AND annotator = ?", (image, who)
        )
        # Only skips were about an earlier file of that name.
        self._connection.execute(
            """UPDATE images SET changed = 0, content = NULL
            WHERE number = ? AND changed > 0 AND votes = 0""",
            (image,),
        )


class ProjectPool(Pool):
    """The pool of a project, with its rounds and metadata.

    Args:
        store: The project's file.
        door: Where questions are asked from; rounds are counted for each door.
        owns: Whether the file is let go of when the pool is closed.
    """

    def __init__(self, store: Store, door: str = "", *, owns: bool = False) -> None:
        self._stored = StoredLedger(store, door)
        self._store, self._door, self._owns = store, door, owns
        super().__init__(self._stored, store.path.parent)

    def close(self) -> None:
        """Let go of the file; the pool can still be read."""
        super().close()
        if self._owns:
            self._store.close(readable=True)

    def about(self) -> About:
        """Return the project's metadata."""
        with self._stored.connection() as connection:
            return load_about(connection)

    def change_about(self, **changes: Any) -> None:  # noqa: ANN401 - fields of About
        """Change some of the project's metadata."""
        with self.transaction(), self._stored.connection() as connection:
            save_about(connection, replace(load_about(connection), **changes))

    def classes(self) -> tuple[str, ...]:
        """Return the names of the classes in the order of their numbers."""
        with self._stored.connection() as connection:
            return list_classes(connection)

    def rounds(self) -> dict[int, Entry]:
        """Return the records of the rounds of this door by their numbers."""
        with self._stored.connection() as connection:
            rows = connection.execute(
                "SELECT number, record FROM rounds WHERE door = ? ORDER BY number", (self._door,)
            ).fetchall()
        try:
            return {row["number"]: parse_json(row["record"]) for row in rows}
        except ValueError as error:
            file = self._store.path
            raise JournalError(f"{file}: a round is damaged ({error}); restore a copy") from error

    def add_round(self, number: int, record: Entry) -> None:
        """Write down a round.

        Raises:
            PoolError: If there is one of that number.
        """
        with self.transaction(), self._stored.connection() as connection:
            added = connection.execute(
                "INSERT OR IGNORE INTO rounds VALUES (?, ?, ?, ?)",
                (self._door, number, time.time(), json.dumps(record)),
            )
            if not added.rowcount:
                raise PoolError(f"{self.path}: another program made round {number} meanwhile")

    def copies(self) -> dict[SampleId, SampleId]:
        """Return the sample that each copy has its label from."""
        return self._stored.copies()

    def renamed(self) -> dict[str, str]:
        """Return the former and the present names of classes."""
        with self._stored.connection() as connection:
            rows = connection.execute(
                "SELECT detail FROM decisions WHERE kind = 'rename class' ORDER BY number DESC"
            ).fetchall()
        found: dict[str, str] = {}
        for row in rows:
            old, _, new = row["detail"].partition(" → ")
            found[old] = found.get(new, new)
        return found


def _one(connection: sqlite3.Connection, query: str) -> int:
    return int(connection.execute(query).fetchone()[0])


def _find(
    connection: sqlite3.Connection, sample: SampleId, *, numbered: bool
) -> sqlite3.Row | None:
    if isinstance(sample, int) != numbered:
        return None
    found: sqlite3.Row | None = connection.execute(
        f"""SELECT i.number, i.labels AS own, {_LABEL} AS label, {_STATE} AS state
        FROM images i WHERE i.id = ? AND {_HERE}""",  # noqa: S608
        (str(sample),),
    ).fetchone()
    return found


def require_sample(
    connection: sqlite3.Connection, sample: SampleId, *, numbered: bool
) -> sqlite3.Row:
    """Return where a sample stands: its number, state and label, and the label of its own.

    Raises:
        InputError: If there is no such sample.
    """
    row = _find(connection, sample, numbered=numbered)
    if row is None:
        raise InputError(f"sample {sample!r} is not in the pool; use the ids it was created with")
    return row
