"""Seconds and peak memory of one stage of work."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch


@dataclass
class Measurement:
    """Time and memory of a stage; filled in when it ends.

    Attributes:
        seconds: Wall-clock time.
        peak_bytes: Highest memory during the stage: allocated on the device for a GPU, resident
            in the whole process for a CPU.
        core_seconds: Time that this process held a core, that of all its threads together.
    """

    seconds: float = 0.0
    peak_bytes: int = 0
    core_seconds: float = 0.0


@contextmanager
def measured(device: torch.device) -> Iterator[Measurement]:
    """Measure the body of a ``with`` block."""
    result = Measurement()
    on_gpu = device.type == "cuda"
    if on_gpu:
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
    else:
        _reset_resident_peak()
    start, start_core = time.perf_counter(), time.process_time()
    try:
        yield result
    finally:
        if on_gpu:
            torch.cuda.synchronize(device)
        result.seconds = time.perf_counter() - start
        result.core_seconds = time.process_time() - start_core
        result.peak_bytes = (
            torch.cuda.max_memory_allocated(device) if on_gpu else _resident_peak_bytes()
        )


def _reset_resident_peak() -> None:
    try:
        # Linux: 5 resets the high-water mark of this process alone.
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return


def _resident_peak_bytes() -> int:
    try:
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    except OSError:
        return 0
    return 0
