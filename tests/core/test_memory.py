"""How much memory is left, how much some work takes, and what running out looks like."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from steepest.core import memory
from steepest.core.memory import free_bytes, is_out_of_memory, peak_bytes

CPU = torch.device("cpu")


@pytest.fixture
def files(monkeypatch):
    """Stand in for the files in which the system tells; a file that is not set is missing."""
    texts: dict[str, str] = {}

    def read(path: Path, encoding: str) -> str:
        if path.as_posix() not in texts:
            raise FileNotFoundError(path)
        return texts[path.as_posix()]

    monkeypatch.setattr(Path, "read_text", read)
    return texts


MEMINFO, LIMIT, USED = "/proc/meminfo", "/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory"),
        MemoryError(),
        RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory"),
    ],
)
def test_running_out_is_known_by_its_errors(error):
    assert is_out_of_memory(error)


@pytest.mark.parametrize(
    "error", [RuntimeError("shapes"), ValueError("can't allocate memory"), KeyboardInterrupt()]
)
def test_other_errors_are_something_else(error):
    assert not is_out_of_memory(error)


def test_an_allocation_that_cannot_be_is_known_as_running_out():
    with pytest.raises(RuntimeError) as caught:
        torch.empty(2**60, dtype=torch.uint8)
    assert is_out_of_memory(caught.value)


def test_free_memory_is_what_the_machine_says(files):
    files[MEMINFO] = "MemTotal:  900 kB\nMemAvailable:     300 kB\nBuffers: 1 kB\n"
    assert free_bytes(CPU) == 300 * 1024


@pytest.mark.parametrize(
    ("limit", "used", "free"),
    [("5000", "4000", 1000), ("4000", "5000", 0), ("max", "5000", 2**20), ("?", "1", 2**20)],
)
def test_a_container_may_have_less(files, limit, used, free):
    files.update({MEMINFO: "MemAvailable: 1024 kB\n", LIMIT: f"{limit}\n", USED: f"{used}\n"})
    assert free_bytes(CPU) == free


def test_a_system_that_does_not_tell_is_taken_to_have_some(files):
    assert free_bytes(CPU) == 2**32
    files[MEMINFO] = "MemTotal: 900 kB\n"
    assert free_bytes(CPU) == 2**32


def test_this_machine_has_memory_left():
    assert 0 < free_bytes(CPU) < 2**50


def test_the_peak_counts_what_is_held_at_once():
    def hold_both():
        a = torch.zeros(1000, 256)
        b = a + 1
        return a, b

    def one_after_the_other():
        for _ in range(3):
            torch.zeros(1000, 256)

    one = 1000 * 256 * 4
    assert peak_bytes(hold_both, CPU) == pytest.approx(2 * one, abs=4096)
    assert peak_bytes(one_after_the_other, CPU) == pytest.approx(one, abs=4096)


def test_what_was_there_before_does_not_count():
    kept = torch.zeros(1000, 256)
    assert peak_bytes(lambda: kept.add_(1), CPU) <= 4096


def test_an_error_of_the_work_is_passed_on():
    def fail():
        raise KeyError("work")

    with pytest.raises(KeyError, match="work"):
        peak_bytes(fail, CPU)


def test_a_gpu_is_asked_for_its_own_mark(monkeypatch):
    marks = {"allocated": 700, "peak": 0}
    monkeypatch.setattr(torch.cuda, "synchronize", lambda _device: None)
    monkeypatch.setattr(
        torch.cuda, "reset_peak_memory_stats", lambda _device: marks.update(peak=700)
    )
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda _device: marks["allocated"])
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda _device: marks["peak"])
    assert memory.peak_bytes(lambda: marks.update(peak=1900), torch.device("cuda")) == 1200


def test_a_gpu_can_give_what_it_holds_in_reserve(monkeypatch):
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _device: (1000, 9000))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda _device: 500)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda _device: 200)
    assert free_bytes(torch.device("cuda")) == 1300
