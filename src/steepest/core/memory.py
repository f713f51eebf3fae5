"""Memory left, memory and seconds that work takes, and out-of-memory errors."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch

_UNKNOWN_BYTES = 2**32


def is_out_of_memory(error: BaseException) -> bool:
    """Say whether an error means that memory ran out, on any device."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and "can't allocate memory" in str(error)


def free_bytes(device: torch.device) -> int:
    """Return how much memory can still be had."""
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        cached = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return int(free) + cached
    found = [_from_meminfo(), _from_control_group()]
    known = [number for number in found if number is not None]
    return min(known) if known else _UNKNOWN_BYTES


def _from_meminfo() -> int | None:
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    sizes = [line.split()[1] for line in lines if line.startswith("MemAvailable:")]
    return int(sizes[0]) * 1024 if sizes else None


def _from_control_group() -> int | None:
    """Return the memory left in the container's limit, which the machine's own number ignores."""
    folder = Path("/sys/fs/cgroup")
    try:
        limit = (folder / "memory.max").read_text(encoding="ascii").strip()
        used = (folder / "memory.current").read_text(encoding="ascii").strip()
        return None if limit == "max" else max(0, int(limit) - int(used))
    except (OSError, ValueError):
        return None


def peak_bytes(work: Callable[[], object], device: torch.device) -> int:
    """Run the work once, untimed, and return the most that torch held for it.

    For a GPU this is the allocator's own high-water mark. For a CPU every allocation and release
    is recorded and added up over time: exact for what goes through torch's allocator, and blind
    to the scratch space that libraries below it take for themselves.
    """
    if device.type == "cuda":
        return _peak_on_gpu(work, device)
    return _peak_on_cpu(work)


def _peak_on_gpu(work: Callable[[], object], device: torch.device) -> int:
    torch.cuda.synchronize(device)
    torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_allocated(device)
    work()
    torch.cuda.synchronize(device)
    return torch.cuda.max_memory_allocated(device) - before


def _peak_on_cpu(work: Callable[[], object]) -> int:
    from torch.profiler import ProfilerActivity, profile

    # The profiler would log its start and end among the progress.
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")
    cpu = [ProfilerActivity.CPU]
    # All events are kept: torch 2.11 warns of those that are not.
    with profile(activities=cpu, profile_memory=True, acc_events=True) as recorded:
        work()
    results = recorded.profiler.kineto_results if recorded.profiler else None
    if results is None:
        raise RuntimeError("the profiler of this torch records no memory")
    changes = [
        (event.start_ns(), event.nbytes())
        for event in results.events()
        if event.name() == "[memory]"
    ]
    held = peak = 0
    for _, change in sorted(changes, key=lambda pair: pair[0]):
        held += change
        peak = max(peak, held)
    return peak


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
