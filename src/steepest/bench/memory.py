"""Whether a contender's work can fit at all."""

from __future__ import annotations

import torch

from steepest.memory import free_bytes

_SHARE = 0.9


def check_room(needed_bytes: int, device: torch.device) -> None:
    """Raise before work that cannot fit; a full CPU would end the whole process instead.

    Raises:
        MemoryError: Says how much is needed, and how much is left.
    """
    free = free_bytes(device)
    if needed_bytes > _SHARE * free:
        raise MemoryError(f"needs {needed_bytes / 2**30:.1f} GiB of {free / 2**30:.1f} GiB left")
