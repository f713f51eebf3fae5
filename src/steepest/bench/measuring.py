"""Timing of pieces of work that take turns, and their peak memory."""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import torch

from steepest.core.memory import free_bytes, peak_bytes

_SHORTEST_SECONDS = 0.1
_MOST_CALLS = 200
_GPU_WARM_UP = 3
_SHARE = 0.9


def _nothing() -> None:
    """Wait for nothing: a CPU's work is done when a call returns."""


@dataclass(frozen=True)
class Clock:
    """Seconds, and how to wait until the device is done.

    Attributes:
        kind: ``"wall"``, or ``"cpu"`` for the time that this process held a core.
        now: Returns seconds.
        wait: Returns once all work that was given to the device is done.
        warm_up: Calls before any is measured. On a GPU the first ones choose kernels, and may
            record what later ones replay.
    """

    kind: str = "wall"
    now: Callable[[], float] = time.perf_counter
    wait: Callable[[], None] = _nothing
    warm_up: int = 1

    def seconds_of(self, work: Callable[[], object], calls: int = 1) -> float:
        """Return the seconds of one call, measured over several in a row."""
        self.wait()
        start = self.now()
        for _ in range(calls):
            work()
        self.wait()
        return (self.now() - start) / calls

    def calls_for(self, work: Callable[[], object]) -> int:
        """Return how many calls in a row are long enough to be timed."""
        seconds = self.seconds_of(work)
        if seconds >= _SHORTEST_SECONDS:
            return 1
        return min(_MOST_CALLS, math.ceil(_SHORTEST_SECONDS / max(seconds, 1e-9)))


def choose_clock(device: torch.device, threads: int) -> Clock:
    """Return the clock that other work on the machine disturbs least.

    A single CPU thread is timed by the core time it was given. With several threads that would
    count those that wait, and a GPU's work takes none of it: both are timed by the wall clock.
    """
    if device.type == "cuda":
        return Clock(wait=lambda: torch.cuda.synchronize(device), warm_up=_GPU_WARM_UP)
    return Clock("cpu", time.process_time) if threads == 1 else Clock()


def turns(names: list[str], rounds: int) -> Iterator[str]:
    """Yield each name once per round, each round beginning with another one.

    What comes right after a heavy piece of work finds a hot and full machine; nobody shall always
    be the one.
    """
    for turn in range(rounds):
        start = turn % max(len(names), 1)
        yield from names[start:] + names[:start]


def best_in_turns(
    work: Mapping[str, Callable[[], object]], rounds: int, clock: Clock
) -> dict[str, float]:
    """Return the best seconds per call of each piece of work, measured in turns."""
    calls: dict[str, int] = {}
    for name, run in work.items():
        for _ in range(clock.warm_up):
            run()
        calls[name] = clock.calls_for(run)
    best = dict.fromkeys(work, math.inf)
    for name in turns(list(work), rounds):
        best[name] = min(best[name], clock.seconds_of(work[name], calls[name]))
    return best


def check_room(needed_bytes: int, device: torch.device) -> None:
    """Raise before work that cannot fit; a full CPU would end the whole process instead.

    Raises:
        MemoryError: Says how much is needed, and how much is left.
    """
    free = free_bytes(device)
    if needed_bytes > _SHARE * free:
        raise MemoryError(f"needs {needed_bytes / 2**30:.1f} GiB of {free / 2**30:.1f} GiB left")


class PeakGauge:
    """Measures the most memory that calls hold above a resting state.

    On a GPU the state is that of the last reset, and several calls are watched: a call that
    replays a recorded graph allocates nothing, so the one that records it has to be among them.

    Args:
        device: The device of the calls.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._rest = 0
        self.reset()

    def reset(self) -> None:
        """Take what is held now as the resting state."""
        gc.collect()  # What others left behind must not be freed in the middle of a call.
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
            torch.cuda.reset_peak_memory_stats(self._device)
            self._rest = torch.cuda.memory_allocated(self._device)

    def peak_bytes(self, work: Callable[[], object], calls: int = 1) -> int:
        """Call the work, untimed, and return the most that was held since the last reset."""
        if self._device.type != "cuda":
            return peak_bytes(work, self._device)
        for _ in range(calls):
            work()
        torch.cuda.synchronize(self._device)
        return torch.cuda.max_memory_allocated(self._device) - self._rest
