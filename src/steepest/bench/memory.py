"""Peak memory of a contender, and whether its work fits at all."""

from __future__ import annotations

import gc
from collections.abc import Callable

import torch

from steepest.core.memory import free_bytes, peak_bytes

_SHARE = 0.9


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
        device: Where the calls compute.
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
