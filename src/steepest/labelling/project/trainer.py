"""Keeps a process that trains in the background, one training at a time.

The process stays between trainings where a probe learns: to start one takes longer than a probe.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from steepest.errors import SteepestError
from steepest.labelling.project.settings import Settings
from steepest.labelling.project.source import Source
from steepest.labelling.project.store import Store
from steepest.labelling.project.trainings import (
    AGAIN,
    TrainingState,
    fail,
    interrupt,
    is_due,
    read_state,
    request,
)

OVER = "over"
"""The process's message at the end of a training."""

COMPUTED = "features"
"""What it says before how many features it has computed, and of how many."""

_LOG = "training.log"
_GRACE_SECONDS = 5.0
_POLL_SECONDS = 0.05
_MOST_LETTERS = 300


class Trainer:
    """Starts requested training runs, and makes sure that they end.

    Args:
        store: The project's file.
        source: The location of the samples.
        settings: Returns the current settings.
        clock: Returns the present time.
        background: Whether to start processes; else requests only wait.
    """

    def __init__(
        self,
        store: Store,
        source: Source,
        settings: Callable[[], Settings],
        clock: Callable[[], float],
        *,
        background: bool,
    ) -> None:
        self._store = store
        self._source = source
        self._settings = settings
        self._clock = clock
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._guard = threading.Lock()
        self._over = threading.Event()
        self._features: tuple[int, int] | None = None
        self._child: subprocess.Popen[bytes] | None = None
        self._thread: threading.Thread | None = None
        with store.writing() as connection:
            interrupt(connection, clock())
        if background:
            self._thread = threading.Thread(target=self._run, name="steepest-trainer", daemon=True)
            self._thread.start()
            self.consider()

    def request(self, reason: str = "on demand", *, folds: int = 0) -> int:
        """Ask for a training on the labels so far; one that waits already is enough.

        Args:
            reason: Why.
            folds: Further models that look for wrong labels, in this training alone; no fewer
                than the settings say are trained.

        Returns:
            The number of the training.
        """
        with self._store.writing() as connection:
            number = request(connection, reason, self._clock(), folds)
        self._wake.set()
        return number

    def consider(self, reason: str | None = None) -> None:
        """Ask for a training if the first picks are due, or after enough answers.

        It never fails: what it follows is on disk already, and the next answer asks again.

        Args:
            reason: Asks for one in any case, unless there is nobody to do it.
        """
        if self._thread is None:
            return
        with contextlib.suppress(SteepestError, OSError):
            if reason is None and self._is_due():
                reason = "new picks are due"
            if reason is not None:
                self.request(reason)

    def _is_due(self) -> bool:
        size = self._settings().answers_per_round(0)
        with self._store.reading() as connection:
            return is_due(connection, size)

    def state(self) -> TrainingState:
        """Return the work in progress, and the outcome of the last training run."""
        with self._store.reading() as connection:
            return read_state(connection)

    @property
    def process_id(self) -> int | None:
        """The number of the process that trains, if there is one."""
        with self._guard:
            return None if self._child is None else self._child.pid

    @property
    def features(self) -> tuple[int, int] | None:
        """The number of images with features, and of all images; None if unknown."""
        return self._features

    def wait(self, timeout_seconds: float | None = None) -> bool:
        """Wait until no training is requested or running; False after the timeout."""
        end = None if timeout_seconds is None else time.monotonic() + timeout_seconds
        while self.state().status != "idle":
            if end is not None and time.monotonic() > end:
                return False
            time.sleep(_POLL_SECONDS)
        return True

    def stop(self) -> None:
        """End the training process; unfinished work is done when the project is opened again."""
        self._stopping.set()
        self._wake.set()
        with self._guard:
            child = self._child
            if child is not None and child.stdin is not None:
                child.stdin.close()
        if child is not None:
            try:
                child.wait(_GRACE_SECONDS)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._wake.clear()
            try:
                state = self.state()
                if state.status == "running":
                    # Its process ended when there was no room to note that.
                    with self._store.writing() as connection:
                        interrupt(connection, self._clock())
                if self.state().status == "wanted":
                    self._train()
                    # Enough answers may have come while it was under way.
                    self.consider()
                    continue
                if state.last is not None and self._settings().way == "probe":
                    # It goes on computing features, and is there when a training is wanted.
                    self._start()
            except (SteepestError, OSError):
                # No room or no memory stops trainings; answers fail on their own, and say so.
                # What waits is tried again: nothing else would wake this thread for it.
                self._stopping.wait(_GRACE_SECONDS)
                continue
            self._wake.wait()

    def _train(self) -> None:
        token = secrets.token_hex(8)
        # A process that is there already would take a folder that is away for a failure.
        self._store.path.stat()
        child = self._start()
        if child is None or child.stdin is None:
            return
        self._over.clear()
        # A process that has ended, or is being stopped, takes nothing more.
        with contextlib.suppress(BrokenPipeError, ValueError):
            child.stdin.write(f"{token}\n".encode())
            child.stdin.flush()
        while child.poll() is None and not self._over.wait(_POLL_SECONDS):
            pass
        if child.poll() is None:
            return
        with self._guard:
            self._child = None
            with contextlib.suppress(OSError):
                child.stdin.close()
        if not self._stopping.is_set():
            self._settle(token, child.returncode)

    def _start(self) -> subprocess.Popen[bytes] | None:
        """Return the process that trains, started if there is none; None while stopping."""
        folder = self._store.path.parent
        with self._guard:
            if self._stopping.is_set():
                return None
            if self._child is not None and self._child.poll() is None:
                return self._child
            if self._child is not None and self._child.stdin is not None:
                with contextlib.suppress(OSError):  # It ended on its own, between two trainings.
                    self._child.stdin.close()
            # Without -P, a module of the current directory would be imported in place of ours or
            # of Python's own, and people start the command in folders that they got from others.
            command = [sys.executable, "-P", "-m", "steepest.labelling.project.worker"]
            with (folder / _LOG).open("wb") as log:
                child = subprocess.Popen(  # noqa: S603 - our own module
                    [*command, str(folder), str(self._source.path)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    env=_environment(),
                )
            self._child = child
        threading.Thread(target=self._listen, args=(child,), daemon=True).start()
        return child

    def _listen(self, child: subprocess.Popen[bytes]) -> None:
        """Read the process's messages until it ends."""
        if child.stdout is None:
            return
        with child.stdout as said:
            for line in said:
                words = line.decode(errors="replace").split()
                if words == [OVER]:
                    self._over.set()
                elif len(words) == 3 and words[0] == COMPUTED:
                    self._features = (int(words[1]), int(words[2]))

    def _settle(self, token: str, code: int) -> None:
        """Note the end of a process that did not do so itself."""
        now = self._clock()
        with self._store.writing() as connection:
            row = connection.execute(
                "SELECT number, reason, status, folds FROM trainings WHERE token = ?", (token,)
            ).fetchone()
            if row is None:  # it ended before it had even begun
                row = connection.execute(
                    "SELECT number, reason, status, folds FROM trainings WHERE status = 'wanted'"
                ).fetchone()
            if row is None or row["status"] not in ("running", "wanted"):
                return
            if row["status"] == "wanted" and not code:
                return  # It had ended in order before it was asked; the next one is.
            fail(connection, row["number"], self._last_words(code), now)
            # Once more: the machine may have been short of memory for a moment.
            if code < 0 and row["reason"] != AGAIN:
                request(connection, AGAIN, now, row["folds"])

    def _last_words(self, code: int) -> str:
        ended = f"code {code}"
        if code < 0:
            try:
                ended = signal.Signals(-code).name
            except ValueError:
                ended = f"signal {-code}"
        try:
            log = (self._store.path.parent / _LOG).read_text(encoding="utf-8", errors="replace")
            lines = log.strip().splitlines()
        except OSError:
            lines = []
        said = f": {lines[-1][:_MOST_LETTERS]}" if lines else ""
        return f"the training process ended by {ended}{said}"


def _environment() -> dict[str, str]:
    """Return our environment, with this very package first in line."""
    root = str(Path(__file__).resolve().parents[3])
    paths = [root, *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
