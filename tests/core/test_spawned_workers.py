"""Spawned workers answer all items, say what went wrong, and leave no process behind."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from itertools import count

import pytest

from steepest.core.processes import SpawnedWorkers, WorkerEndedError, tell
from steepest.errors import InputError


def make():
    calls = count(1)

    def work(common, item):
        if item == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if item == "refuse":
            raise InputError("not this one")
        if item == "sleep":
            time.sleep(60)
        if item == "lambda":
            return lambda: None
        tell((item, os.getpid()))
        return common, item, os.getpid(), next(calls)

    return work


def make_failing():
    raise KeyError("nothing to work with")


@pytest.fixture(scope="module")
def team():
    with SpawnedWorkers(2) as made:
        yield made


def test_each_item_has_its_answer_and_processes_stay(team):
    told, turns = [], []
    found = dict(team.answers(make, "a", range(6), lambda: turns.append(1), told.append))
    assert [found[n][:2] for n in range(6)] == [("a", n) for n in range(6)]
    assert sorted(item for item, _ in told) == list(range(6))
    assert turns
    first = {answer[2] for answer in found.values()}
    assert os.getpid() not in first
    assert len(first) <= 2
    again = dict(team.answers(make, "b", range(4)))
    assert {answer[2] for answer in again.values()} <= first
    assert {answer[0] for answer in again.values()} == {"b"}
    # What does the work is made once for all items of a process.
    last = {pid: max(a[3] for a in again.values() if a[2] == pid) for pid in first}
    assert sum(last.values()) >= 4


@pytest.mark.parametrize(
    ("items", "kind", "text"),
    [(["refuse"], InputError, "not this one"), (["lambda"], Exception, "pickle")],
)
def test_an_error_arrives_with_its_trace(team, items, kind, text):
    with pytest.raises(kind, match=text) as caught:
        list(team.answers(make, None, items))
    assert "In a worker process" in caught.value.__notes__[0]
    assert dict(team.answers(make, None, [5]))[0][1] == 5  # The others go on.


def test_an_error_of_what_makes_the_work_arrives_too(team):
    with pytest.raises(KeyError, match="nothing to work with"):
        list(team.answers(make_failing, None, [1]))


def test_answers_that_nobody_waits_for_are_never_taken_for_others(team):
    answers = team.answers(make, None, [1, "sleep"])
    next(answers)
    answers.close()
    assert dict(team.answers(make, None, [7, 8]))[0][1] == 7


def test_a_killed_process_is_told_and_the_others_are_ended():
    before = set(multiprocessing.active_children())
    with pytest.raises(WorkerEndedError, match="signal 9") as caught, SpawnedWorkers(2) as team:
        list(team.answers(make, None, ["kill", "sleep"]))
    assert (caught.value.code, caught.value.begun) == (-9, True)
    assert set(multiprocessing.active_children()) <= before
