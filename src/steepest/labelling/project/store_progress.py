"""Progress of the training process, written where the page can read it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from steepest.core.progress import Step
from steepest.errors import RunFolderError
from steepest.labelling.project.store import Store

_SECONDS_BETWEEN = 0.5


class StoreProgress:
    """Writes stage and amount into the row of a training, at most twice a second.

    Args:
        store: The project's file.
        token: Whose training it is.
    """

    def __init__(self, store: Store, token: str) -> None:
        self._store = store
        self._token = token

    @contextmanager
    def task(self, description: str, total: int) -> Iterator[Step]:
        """Start a piece of work.

        Raises:
            RunFolderError: If another process has taken over.
        """
        step = _Row(self._store, self._token, description, total)
        step.write()
        yield step
        step.write()


class _Row:
    def __init__(self, store: Store, token: str, stage: str, total: int) -> None:
        self._store = store
        self._token = token
        self._stage = stage
        self._total = total
        self._done = 0
        self._written = 0.0

    def advance(self, amount: int = 1, note: str = "") -> None:  # noqa: ARG002
        self._done += amount
        if time.monotonic() - self._written >= _SECONDS_BETWEEN:
            self.write()

    def write(self) -> None:
        self._written = time.monotonic()
        with self._store.writing() as connection:
            changed = connection.execute(
                "UPDATE trainings SET stage = ?, done = ?, total = ? "
                "WHERE token = ? AND status = 'running'",
                (self._stage, self._done, self._total, self._token),
            ).rowcount
        if not changed:
            raise RunFolderError("another process has taken over this training")
