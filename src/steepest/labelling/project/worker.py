"""The training process: ``python -m steepest.labelling.project.worker FOLDER PHOTOS``.

Each line of its standard input names a training to carry out; a line of its standard output says
that it is over. In between, it computes features of the images that have none yet. It ends when
its standard input does, and so with the process that started it, however that ends.
"""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import sqlite3
import sys
import threading
import time
import traceback
from pathlib import Path

import torch

from steepest.core.devices import usable_cores
from steepest.core.progress import SilentProgress
from steepest.errors import SteepestError, first_line, in_one_line
from steepest.labelling.project.inputs import WANTED, FeatureFinder
from steepest.labelling.project.predictions import predict_all
from steepest.labelling.project.retraining import run_round
from steepest.labelling.project.settings import Settings, load_settings
from steepest.labelling.project.source import Source, open_source
from steepest.labelling.project.store import FILE_NAME, Store
from steepest.labelling.project.trainer import COMPUTED, OVER
from steepest.labelling.project.trainings import fail

_NICENESS = 5
_ORPHANED = 3
_AT_ONCE = 512


def main(arguments: list[str]) -> int:
    """Run requested training runs, and record errors."""
    folder, path = Path(arguments[0]), Path(arguments[1])
    tokens: queue.Queue[str] = queue.Queue()
    threading.Thread(target=_listen, args=(tokens,), daemon=True).start()
    # Control-C in a terminal reaches all its processes; the one that started this one decides.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(OSError, AttributeError):
        # People who click must not wait for a machine that learns.
        os.nice(_NICENESS)
    torch.set_num_threads(max(1, usable_cores() - 1))
    store = Store(folder / FILE_NAME)
    try:
        settings = _read_settings(store)
        return _work(store, open_source(path, settings.kind, settings.text_column), tokens)
    finally:
        store.close()


def _work(store: Store, source: Source, tokens: queue.Queue[str]) -> int:
    features = FeatureFinder(store, source)
    while True:
        _work_ahead(store, source, features, tokens)
        token = tokens.get()
        try:
            run_round(store, source, token, features)
        except Exception as error:  # noqa: BLE001 - the page shows it, whatever it is
            traceback.print_exc()  # into the log
            _note_failure(store, token, error)
            return 1
        _say(OVER)
        if _read_settings(store).way != "probe":
            _work_ahead(store, source, features, tokens)
            if tokens.empty():
                return 0  # The memory of a net is given back.


def _read_settings(store: Store) -> Settings:
    with store.reading() as connection:
        return load_settings(connection) or Settings()


def _work_ahead(
    store: Store, source: Source, features: FeatureFinder, tokens: queue.Queue[str]
) -> None:
    """Compute features and predictions that are missing until a training is requested."""
    try:
        with store.reading() as connection:
            if connection.execute("SELECT 1 FROM batches").fetchone() is None:
                return  # The first picks are about to be asked for, and say what is needed first.
        settings = _read_settings(store)
        _predict(store, source, settings, features, tokens)
        if settings.way == "probe" and _compute(store, settings, features, tokens):
            _predict(store, source, settings, features, tokens)
    except _WantedError:
        return
    except (SteepestError, OSError, sqlite3.Error):
        # The next training meets the same, and says so where people see it.
        traceback.print_exc()


def _predict(
    store: Store,
    source: Source,
    settings: Settings,
    features: FeatureFinder,
    tokens: queue.Queue[str],
) -> None:
    silent = SilentProgress()
    predict_all(store, source, settings, features, silent, lambda: not tokens.empty())


def _compute(
    store: Store, settings: Settings, features: FeatureFinder, tokens: queue.Queue[str]
) -> bool:
    """Compute features that are missing; return whether there were any."""
    with store.reading() as connection:
        samples = [row["id"] for row in connection.execute(WANTED)]
    found = features.find(settings)
    missing = found.missing(samples)
    ahead = _Ahead(tokens, len(samples) - len(missing), len(samples))
    for start in range(0, len(missing), _AT_ONCE):
        found.compute(missing[start : start + _AT_ONCE], ahead)
    return bool(missing)


class _WantedError(Exception):
    """A training is requested."""


class _Ahead:
    """Says how far features are computed, and stops when a training is requested."""

    def __init__(self, tokens: queue.Queue[str], done: int, total: int) -> None:
        self._tokens = tokens
        self._done = done
        self._total = total

    def advance(self, amount: int = 1, note: str = "") -> None:  # noqa: ARG002
        self._done += amount
        _say(f"{COMPUTED} {self._done} {self._total}")
        if not self._tokens.empty():
            raise _WantedError


def _note_failure(store: Store, token: str, error: Exception) -> None:
    line = first_line(error) if isinstance(error, SteepestError) else in_one_line(error)
    with store.writing() as connection:
        row = connection.execute(
            "SELECT number FROM trainings WHERE token = ? AND status = 'running'", (token,)
        ).fetchone()
        if row is not None:
            fail(connection, row["number"], line, time.time())


def _say(line: str) -> None:
    # The parent may be about to end this process.
    with contextlib.suppress(OSError):
        os.write(sys.stdout.fileno(), f"{line}\n".encode())


def _listen(tokens: queue.Queue[str]) -> None:
    # Not by sys.stdin: a thread that waits in it makes the interpreter abort when it ends.
    rest = b""
    while piece := os.read(sys.stdin.fileno(), 1 << 16):
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            tokens.put(line.decode())
    os._exit(_ORPHANED)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
