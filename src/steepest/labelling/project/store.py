"""One SQLite file, used by many threads and by the training process at the same time."""

from __future__ import annotations

import os
import sqlite3
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from steepest.core.files import scratch_beside
from steepest.errors import DataError, RunFolderError, first_line
from steepest.labelling.project.schema import CHANGES, TABLES, VERSION, find_foreign

_MOST_NAMED = 3
_COPIES = "labels*.sqlite*"
_OTHERS = (
    *("models/version-*", "thumbnails/*/*.jpg", "training.log", "token"),
    *("labels.csv", "labels.jsonl", "labelled.zip", "answers.csv"),
)
"""What is made by a project that has a file of labels, and by nobody else."""


def refuse_to_begin_anew(file: Path) -> None:
    """Refuse to begin a project where an earlier one has lost its labels.

    Args:
        file: Where its labels are kept: gone, or without anything in it.

    Raises:
        DataError: Naming what is left of the earlier one.
    """
    folder = file.parent
    own = {file.name, f"{file.name}-shm"}
    if file.exists() and file.stat().st_size:
        own.add(f"{file.name}-wal")  # of the one who asks
    try:
        copies = [path for path in sorted(folder.glob(_COPIES)) if path.name not in own]
        copies = [path for path in copies if path.stat().st_size]
        found = [*copies, *(first for kind in _OTHERS for first in sorted(folder.glob(kind))[:1])]
    except OSError:
        return  # Who opens it next says why that is not possible.
    if not found:
        return
    whole = [path.name for path in copies if path.suffix == ".sqlite"]
    remedy = f"a copy such as {whole[-1]}" if whole else "a copy"
    named = ", ".join(str(path.relative_to(folder)) for path in found[:_MOST_NAMED])
    what = "is empty" if file.exists() else "is gone"
    raise DataError(
        f"{file} {what}, but a project was here ({named}): put {remedy} back as {file.name}, or "
        f"begin anew by removing {folder}"
    )


FILE_NAME = "labels.sqlite"

_PATIENCE_SECONDS = 60.0


class Store:
    """Connections to a project's file; committed transactions survive a kill.

    Args:
        path: The file; it is made if it is not there.

    Raises:
        DataError: If the file is damaged, not ours, or of a later version, or if it is gone or
            empty where an earlier project has left something.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._idle: list[sqlite3.Connection] = []
        weakref.finalize(self, _close_all, self._idle)
        self._guard = threading.Lock()
        # Threads of one process wait here in turn instead of polling the file's lock.
        self._turn = threading.Lock()
        self._log = CommitLog(path)
        self._closed, self._kept = False, True
        _refuse_journal(path)
        if not path.exists() or not path.stat().st_size:
            # Before a connection is made: SQLite would remove what is left beside the file.
            refuse_to_begin_anew(path)
        try:
            self._keep_earlier()
            with self.writing() as connection:
                _prepare(connection, path)
                _check_schema(connection, path)
        except BaseException:
            self.close()
            raise

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Lend a connection that sees one unchanging state, and must not write."""
        with self._lent() as connection:
            connection.execute("BEGIN")
            try:
                yield connection
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")

    @contextmanager
    def writing(self, *, lasting: bool = True) -> Iterator[sqlite3.Connection]:
        """Yield a connection; its changes are on disk at the end, or not made at all.

        Args:
            lasting: False does not wait for the disk: a power cut, and nothing less, may undo the
                changes, but not those of an earlier transaction without these.
        """
        with self._turn, self._lent() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
            number = self._log.count()
        if lasting:
            self._log.wait_for(number)

    def copy_to(self, path: Path) -> None:
        """Write a copy of one moment, whole and in one file, while others go on.

        A copy of the file itself would lack what SQLite keeps beside it for a while.

        Args:
            path: The copy; there must be none yet.

        Raises:
            DataError: If it cannot be written.
        """
        with self._lent() as connection:
            connection.execute("VACUUM INTO ?", (str(path),))

    def _keep_earlier(self) -> None:
        """Write a copy of a file of an earlier version beside it, before it is changed."""
        with self.reading() as connection:
            version = _read_version(connection)
        if not 0 < version < VERSION:
            return
        stem = f"{self.path.stem}-version-{version}"
        copy, number = self.path.with_name(f"{stem}.sqlite"), 1
        while copy.exists():
            number += 1
            copy = self.path.with_name(f"{stem}-{number}.sqlite")
        scratch = scratch_beside(copy)
        try:
            self.copy_to(scratch)
            scratch.rename(copy)
        finally:
            scratch.unlink(missing_ok=True)

    def close(self, *, readable: bool = False) -> None:
        """Close all connections; a second call does nothing.

        Args:
            readable: Whether it can be read all the same, by a new connection each time.
        """
        with self._guard:
            self._closed = not readable
            self._kept = False
            _close_all(self._idle)

    @contextmanager
    def _lent(self) -> Iterator[sqlite3.Connection]:
        connection = self._take()
        try:
            yield connection
        except (sqlite3.ProgrammingError, sqlite3.IntegrityError):
            raise
        except sqlite3.DatabaseError as error:
            raise _explain(self.path, error) from error
        finally:
            with self._guard:
                keep = self._kept
                if keep:
                    self._idle.append(connection)
            if not keep:
                connection.close()

    def _take(self) -> sqlite3.Connection:
        with self._guard:
            if self._closed:
                raise RunFolderError(f"{self.path.parent} is closed; open the project again")
            if self._idle:
                return self._idle.pop()
        return _connect(self.path)


def _close_all(connections: list[sqlite3.Connection]) -> None:
    while connections:
        connections.pop().close()


class CommitLog:
    """Brings transactions to the disk, as many at once as there are while it is busy.

    SQLite would wait for the disk within each transaction, while all others wait for its end: a
    disk that takes 4 ms for it would take 250 answers a second, and no more.

    Args:
        path: The database file of the log.
    """

    def __init__(self, path: Path) -> None:
        self._path = path.with_name(f"{path.name}-wal")
        self._busy = threading.Lock()
        self._written = 0
        self._lasting = 0
        self._failure = ""

    def count(self) -> int:
        """Count a transaction that was committed, and return its number; one thread at a time."""
        self._written += 1
        return self._written

    def wait_for(self, number: int) -> None:
        """Return once a transaction is on the disk, with all those before it.

        Raises:
            DataError: If the disk does not take it.
        """
        with self._busy:
            if self._lasting >= number:
                return
            upto = self._written
            # A system that could not write something may have forgotten it by the next attempt.
            if not self._failure:
                try:
                    sync_file(self._path)
                except OSError as error:
                    self._failure = f"{error.strerror or error}"
            if self._failure:
                raise DataError(
                    f"{self._path}: {self._failure}; the last answers may be lost: end steepest, "
                    "look after the disk, and start again"
                )
            self._lasting = upto


def sync_file(path: Path) -> None:
    """Wait until what was written to a file is on the disk; one that is gone was merged before."""
    try:
        descriptor = os.open(path, os.O_RDWR | getattr(os, "O_BINARY", 0))
    except FileNotFoundError:
        return
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _connect(path: Path) -> sqlite3.Connection:
    connection = None
    try:
        connection = sqlite3.connect(
            path, timeout=_PATIENCE_SECONDS, isolation_level=None, check_same_thread=False
        )
        connection.row_factory = sqlite3.Row
        mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
        # Of a log, what was committed is brought to the disk by CommitLog.
        connection.execute(f"PRAGMA synchronous = {'NORMAL' if mode == 'wal' else 'FULL'}")
        connection.execute("PRAGMA foreign_keys = ON")
    except sqlite3.Error as error:
        if connection is not None:
            connection.close()
        raise _explain(path, error) from error
    return connection


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    version = _read_version(connection)
    if version == VERSION:
        return
    if version > VERSION:
        raise DataError(f"{path} was written by a later steepest; update steepest to open it")
    statements = list(TABLES)
    if version:
        statements = [one for step in range(version, VERSION) for one in CHANGES[step]]
    elif connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]:
        raise DataError(f"{path} is a database of something else; choose another project folder")
    else:
        refuse_to_begin_anew(path)
    for statement in statements:
        connection.execute(statement)
    connection.execute(f"PRAGMA user_version = {VERSION:d}")


def _check_schema(connection: sqlite3.Connection, path: Path) -> None:
    """Raise on triggers and views that reading and writing would run; undo an upgrade."""
    foreign = find_foreign(connection)
    if foreign is not None:
        raise DataError(
            f"{path}: its {foreign} is not what steepest makes, and could change answers; remove "
            "it if it is yours, or put a copy in place that you trust"
        )


def _refuse_journal(path: Path) -> None:
    """Refuse what SQLite would take for a change that was cut short, and undo.

    It may name any file of the user as one that is to be removed afterwards. Ours are kept in
    another way (``-wal``), from which nothing is removed.
    """
    journal = path.with_name(f"{path.name}-journal")
    if os.path.lexists(journal):
        raise DataError(
            f"{journal} is not of steepest, and SQLite would do what is in it: remove it, or "
            "choose another folder by --project"
        )


def _read_version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def _explain(path: Path, error: sqlite3.Error) -> DataError:
    remedy = "restore it from a copy"
    if isinstance(error, sqlite3.OperationalError):
        remedy = "make room there, or choose a folder on a local disk that you may write to"
    return DataError(f"{path}: {first_line(error)}; {remedy}")
