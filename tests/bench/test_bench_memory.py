"""Peak memory is what torch held during a call, and running out of it is told apart."""

from __future__ import annotations

import pytest
import torch

from steepest.bench.measuring import PeakGauge, check_room
from steepest.core.memory import is_out_of_memory, peak_bytes

CPU = torch.device("cpu")
MIB = 2**20


def test_the_peak_is_what_is_held_at_once():
    def work():
        first = torch.empty(MIB, dtype=torch.uint8)
        second = torch.empty(2 * MIB, dtype=torch.uint8)
        del first
        third = torch.empty(MIB // 2, dtype=torch.uint8)
        return second, third

    assert peak_bytes(work, CPU) == 3 * MIB


def test_what_is_held_before_does_not_count():
    resting = torch.empty(8 * MIB, dtype=torch.uint8)
    assert peak_bytes(resting[:MIB].clone, CPU) == MIB


def test_work_that_allocates_nothing_has_no_peak():
    assert peak_bytes(lambda: None, CPU) == 0


def test_a_backward_pass_holds_its_gradients():
    weight = torch.zeros(MIB, requires_grad=True)

    def work():
        torch.autograd.grad((weight * 2).sum(), weight)

    assert 4 * MIB <= peak_bytes(work, CPU) <= 17 * MIB


def test_a_gauge_measures_one_call_on_a_cpu():
    calls = []
    gauge = PeakGauge(CPU)
    assert gauge.peak_bytes(lambda: calls.append(torch.empty(MIB, dtype=torch.uint8)), 3) == MIB
    assert len(calls) == 1


def test_a_gauge_on_a_gpu_sees_the_call_that_records(monkeypatch):
    held = {"now": 100, "peak": 100}
    gpu = {
        "synchronize": lambda _: None,
        "memory_allocated": lambda _: held["now"],
        "max_memory_allocated": lambda _: held["peak"],
        "reset_peak_memory_stats": lambda _: held.update(peak=held["now"]),
    }
    for name, function in gpu.items():
        monkeypatch.setattr(torch.cuda, name, function)
    sizes = [10, 50, 0]

    def replay_after_the_second():
        held["peak"] = max(held["peak"], held["now"] + sizes.pop(0))

    gauge = PeakGauge(torch.device("cuda"))
    held.update(now=130, peak=900)  # A copy of the model, and what making it took.
    gauge.reset()
    assert gauge.peak_bytes(replay_after_the_second, 3) == 50


def test_work_that_cannot_fit_is_refused_beforehand():
    check_room(1, CPU)
    with pytest.raises(MemoryError, match=r"needs 1048576\.0 GiB of \d"):
        check_room(2**50, CPU)


@pytest.mark.parametrize(
    ("error", "out"),
    [
        (torch.OutOfMemoryError("CUDA out of memory"), True),
        (MemoryError("needs more"), True),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried"), True),
        (RuntimeError("mat1 and mat2 shapes cannot be multiplied"), False),
        (ValueError("can't allocate memory"), False),
    ],
)
def test_running_out_of_memory_is_told_from_other_errors(error, out):
    assert is_out_of_memory(error) is out
