"""A worker process that trains models one after the other on request."""

from __future__ import annotations

import multiprocessing
import pickle
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, Self

import torch
from torch import Tensor

from steepest.core.memory import Measurement, is_out_of_memory, measured
from steepest.core.own_code import own_code_importable
from steepest.core.processes import end_with_parent, main_hidden, sendable
from steepest.core.torch_settings import take_over_rounding
from steepest.data.workers import interrupts_ignored
from steepest.errors import SteepestError
from steepest.training import FitResult, fit

_PATIENCE_SECONDS = 5.0
"""Seconds to wait for a process to end before it is killed."""

_AGAIN = "run the same command again to go on, with fewer at a time (--member-jobs)"


@dataclass(frozen=True)
class Trained:
    """Result of a training in a worker.

    Attributes:
        state: The trained weights, by name.
        result: How it went.
        spent: The measurements of the process.
        warned: Its warnings, as ``warnings.warn_explicit`` takes them.
    """

    state: Mapping[str, Any]
    result: FitResult
    spent: Measurement
    warned: tuple[tuple[str, type[Warning], str, int], ...]


class TrainingWorker:
    """One process, seen from the one that starts it."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.line, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs,))
        # What is sent needs no main file, so that a script without a guard works too.
        with main_hidden(True), own_code_importable(), interrupts_ignored():
            self._process.start()
        theirs.close()

    def give(self, common: bytes, own: bytes) -> None:
        """Send a training: the pickled arguments of ``fit`` in two parts.

        Raises:
            SteepestError: If the process is gone.
        """
        try:
            # Plain bytes: tensors would go through shared memory, of which containers have little.
            self.line.send_bytes(common)
            self.line.send_bytes(own)
        except OSError as error:
            raise self._gone() from error

    def take(self) -> int | Trained:
        """Wait for what comes next of the training: epochs that are done, or its end.

        Raises:
            SteepestError: If the process is gone, or memory ran out.
            Exception: Whatever else the training raised.
        """
        try:
            message: int | Trained | Exception = pickle.loads(self.line.recv_bytes())  # noqa: S301 - of a process of our own
        except (EOFError, OSError) as error:
            raise self._gone() from error
        if isinstance(message, Exception):
            raise message
        return message

    def stop(self, *, at_once: bool) -> None:
        """Let the process end: as soon as it asks for more, or now."""
        self.line.close()
        if at_once:
            self._process.terminate()

    def wait(self) -> None:
        """Wait until it has ended."""
        for end in (self._process.terminate, self._process.kill):
            self._process.join(_PATIENCE_SECONDS)
            if self._process.is_alive():
                end()
        self._process.join(_PATIENCE_SECONDS)
        if not self._process.is_alive():  # A device that hangs may hold it.
            self._process.close()

    def _gone(self) -> SteepestError:
        self._process.join(_PATIENCE_SECONDS)
        code = self._process.exitcode or 0
        reason = f"signal {-code}; out of memory?" if code < 0 else f"exit code {code}"
        return SteepestError(
            f"a worker process that trained for the committee was killed ({reason}): {_AGAIN}"
        )


class _Telling:
    """Progress that is sent to the process that started this one."""

    def __init__(self, line: Connection) -> None:
        self._line = line

    @contextmanager
    def task(self, description: str, total: int) -> Iterator[Self]:  # noqa: ARG002 - as asked for
        yield self

    def advance(self, amount: int = 1, note: str = "") -> None:  # noqa: ARG002 - as asked for
        self._line.send_bytes(pickle.dumps(amount))


def _serve(line: Connection) -> None:
    """The main loop of a worker: train requested models until the pipe is closed."""
    end_with_parent()
    try:
        while True:
            common, own = line.recv_bytes(), line.recv_bytes()
            line.send_bytes(pickle.dumps(_train(common, own, _Telling(line))))
            torch.cuda.empty_cache()  # Others may need it before the next training.
    except (EOFError, OSError):
        return


def _train(common: bytes, own: bytes, progress: _Telling) -> Trained | Exception:
    try:
        settings, shared = pickle.loads(common)  # noqa: S301 - packed by this program
        arguments: dict[str, Any] = {**shared, **pickle.loads(own)}  # noqa: S301 - as above
        take_over_rounding(settings)
        with (
            warnings.catch_warnings(record=True) as warned,
            measured(arguments["device"]) as spent,
        ):
            result = fit(**arguments, progress=progress)
        state = {
            name: value.detach().cpu() if isinstance(value, Tensor) else value
            for name, value in arguments["model"].state_dict().items()
        }
        shown = tuple((str(w.message), w.category, w.filename, w.lineno) for w in warned)
        return Trained(state, result, spent, shown)
    except Exception as error:  # noqa: BLE001 - whatever a model of the user's own raises
        return _sendable(error)


def _sendable(error: Exception) -> Exception:
    full = SteepestError(f"the memory is too small for trainings side by side: {_AGAIN}")
    return sendable(error, full if is_out_of_memory(error) else None)
