"""Time is measured in turns, and the best of the rounds counts."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
import torch
from fake_contenders import FakeTime

from steepest.bench.measuring import best_in_turns, choose_clock, turns


def test_every_round_runs_each_once_and_begins_with_another():
    rounds = list(turns(["a", "b", "c"], 4))
    assert [rounds[i : i + 3] for i in range(0, 12, 3)] == [
        ["a", "b", "c"],
        ["b", "c", "a"],
        ["c", "a", "b"],
        ["a", "b", "c"],
    ]


def test_no_names_make_no_turns():
    assert list(turns([], 3)) == []


def test_the_best_of_all_rounds_is_kept():
    fake = FakeTime()
    # The first call warms up, the second is for counting calls; then three rounds.
    work = {
        "steady": fake.work("steady", [9, 1, 1, 1, 1]),
        "noisy": fake.work("noisy", [9, 9, 4, 2, 3]),
    }
    assert best_in_turns(work, 3, fake.clock) == {"steady": 1, "noisy": 2}
    assert fake.order[4:] == ["steady", "noisy", "noisy", "steady", "steady", "noisy"]


def test_what_has_to_warm_up_is_called_as_often_before():
    fake = FakeTime()
    clock = replace(fake.clock, warm_up=3)
    # Three calls warm up, the fourth is for counting calls; then the rounds.
    assert best_in_turns({"recording": fake.work("a", [9, 9, 9, 9, 1])}, 2, clock) == {
        "recording": 1
    }
    assert len(fake.order) == 6


def test_a_gpu_warms_up_three_times():
    assert choose_clock(torch.device("cuda"), 1).warm_up == 3
    assert choose_clock(torch.device("cpu"), 1).warm_up == 1


def test_seconds_are_those_of_one_call_of_several():
    fake = FakeTime()
    assert fake.clock.seconds_of(fake.work("a", [1, 2, 3]), calls=3) == 2


@pytest.mark.parametrize(
    ("seconds", "calls"), [(0.5, 1), (0.1, 1), (0.03, 4), (1e-6, 200), (0, 200)]
)
def test_short_work_is_called_often_enough_to_be_timed(seconds, calls):
    fake = FakeTime()
    assert fake.clock.calls_for(fake.work("a", [seconds])) == calls


def test_the_device_is_waited_for_before_and_after():
    fake = FakeTime()
    waits = []
    clock = type(fake.clock)("fake", lambda: fake.seconds, lambda: waits.append(fake.seconds))
    clock.seconds_of(fake.work("a", [5]))
    assert waits == [0, 5]


def test_one_thread_is_timed_by_its_core_and_several_by_the_wall():
    cpu = torch.device("cpu")
    assert choose_clock(cpu, 1).kind == "cpu"
    assert choose_clock(cpu, 1).now is time.process_time
    assert choose_clock(cpu, 2).kind == "wall"
    assert choose_clock(torch.device("cuda"), 1).kind == "wall"
