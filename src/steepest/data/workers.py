"""Worker processes that read samples ahead, into memory that they share with this one.

They start from a fork server: a plain fork would copy a process in which CUDA and other threads
may be at work. The main file is not run again in them, unless it defines what they read with, so
that scripts without ``if __name__ == "__main__":`` work, too.
"""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import forkserver
from multiprocessing.connection import Connection, wait
from multiprocessing.context import BaseContext

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from steepest.core.processes import Child, interrupts_ignored, main_can_be_imported, name_end
from steepest.data.shared_arrays import Parcel, pack, share
from steepest.errors import DataError, SteepestError, first_line

Read = Callable[[int, Tensor | None], Tensor]
"""Reads one sample by its row and draws; raises nothing but a ``SteepestError``."""

Job = tuple[npt.NDArray[np.int64], npt.NDArray[np.float64] | None]
"""A batch: its rows [B], and its draws [B, D] where it is augmented."""

_AHEAD = 2
"""Batches that a worker may have in hand: one to read, one to wait for its turn."""

_PRELOADED = ["steepest.data.workers", "PIL.Image"]


def read_ahead(
    read: Read, jobs: Sequence[Job], shape: Sequence[int], dtype: torch.dtype, workers: int
) -> Iterator[Tensor]:
    """Yield batches in their order, read by worker processes.

    Args:
        read: Reads one sample.
        jobs: The batches to read.
        shape: Of one sample.
        dtype: Of one sample.
        workers: How many processes.

    Raises:
        DataError: If a sample cannot be read, or a worker cannot be started or ends.
    """
    parcel = pack(read)
    if parcel.needs_main and not main_can_be_imported():
        raise DataError(
            "worker processes cannot see what is defined in a notebook or typed in: put the data "
            "set into a file and import it, or set workers = 0"
        )
    largest = max((len(rows) for rows, _ in jobs), default=0)
    team: list[_Worker] = []
    try:
        for _ in range(workers):
            team.append(_Worker(parcel, share((_AHEAD, largest, *shape), dtype)))  # noqa: PERF401 - those started must be stopped
        yield from _take_turns(team, jobs)
    finally:
        for worker in team:
            worker.stop()
        for worker in team:
            worker.wait()


def _take_turns(team: Sequence[_Worker], jobs: Sequence[Job]) -> Iterator[Tensor]:
    def ask(number: int) -> None:
        if number < len(jobs):
            turn, seat = divmod(number, len(team))
            team[seat].ask(turn % _AHEAD, jobs[number])

    for number in range(len(team) * _AHEAD):
        ask(number)
    for number, (rows, _) in enumerate(jobs):
        turn, seat = divmod(number, len(team))
        batch = team[seat].answer(turn % _AHEAD, len(rows))
        ask(number + len(team) * _AHEAD)
        yield batch


class _Worker:
    """One process, seen from this one."""

    def __init__(self, parcel: Parcel, slots: Tensor) -> None:
        self._slots = slots
        self._needs_main = parcel.needs_main
        try:
            self._child = Child(
                _serve,
                parcel,
                slots,
                context=_context(),
                needs_main=parcel.needs_main,
                daemon=True,
            )
        except (OSError, EOFError, RuntimeError, ValueError) as error:
            raise DataError(
                f"a worker process cannot be started ({first_line(error)}): set workers = 0"
            ) from error
        self._line = self._child.line
        self.wait = self._child.wait

    def ask(self, slot: int, job: Job) -> None:
        try:
            self._line.send((slot, *job))
        except OSError:
            # It is gone, which the next answer tells.
            return

    def answer(self, slot: int, count: int) -> Tensor:
        """Return the batch that was requested into this slot.

        Raises:
            DataError: If a sample of it cannot be read, or the process is gone.
        """
        ready = wait([self._line, self._child.process.sentinel])
        try:
            failure = self._line.recv() if self._line in ready else self._explain_end()
        except (EOFError, OSError):
            failure = self._explain_end()
        if failure is not None:
            raise DataError(failure)
        return self._slots[slot, :count].clone()

    def stop(self) -> None:
        self._child.stop(at_once=True)

    def _explain_end(self) -> str:
        code = self._child.exit_code()
        remedy = (
            'put what the script does under `if __name__ == "__main__":`'
            if self._needs_main and code > 0
            else "use fewer workers if memory ran out"
        )
        return (
            f"a worker process ended while it was reading ({name_end(code)}): {remedy}, or set "
            "workers = 0 to see why"
        )


def _serve(line: Connection, parcel: Parcel, slots: Tensor) -> None:
    """The main loop of a worker: read requested batches until the queue is closed."""
    # Ctrl-C reaches the whole group of processes; the one that started this ends it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    torch.set_num_threads(1)
    try:
        read, failure = parcel.open(), None
    except Exception as error:  # noqa: BLE001 - whatever a user's own data set raises
        reason = first_line(error)
        failure = f"the data set cannot be rebuilt in a worker process ({reason}): set workers = 0"
    try:
        while True:
            slot, rows, draws = line.recv()
            line.send(failure or _fill(slots[slot], read, rows, draws))
    except (EOFError, OSError):
        return


def _fill(
    slot: Tensor, read: Read, rows: npt.NDArray[np.int64], draws: npt.NDArray[np.float64] | None
) -> str | None:
    """Read a batch into a slot; return the error, if any."""
    try:
        for place, row in enumerate(rows):
            draw = None if draws is None else torch.from_numpy(draws[place])
            slot[place] = read(int(row), draw)
    except SteepestError as error:
        return str(error)
    return None


def _context() -> BaseContext:
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    # Torch takes a second to import: once, not once for each worker and epoch.
    context.set_forkserver_preload(_PRELOADED)
    with interrupts_ignored():
        # It takes over what is ignored here: Ctrl-C is this process's to answer, not its own.
        forkserver.ensure_running()
    return context
