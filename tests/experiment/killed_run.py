"""Run experiments in processes that kill themselves, by SIGKILL, at a named point of a cycle."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import torch
from small import config

from steepest.core import journal
from steepest.experiment import auxiliary_models, folder, label_requests, selection, setup
from steepest.experiment.loop import Experiment
from steepest.pool import Pool


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def on_call(owner: object, name: str, number: int, *, after: bool) -> None:
    """Let the ``number``-th call of a function be the last thing this process does."""
    original = getattr(owner, name)
    calls = 0

    def counted(*args, **kwargs):
        nonlocal calls
        calls += 1
        if calls == number and not after:
            die()
        result = original(*args, **kwargs)
        if calls == number:
            die()
        return result

    setattr(owner, name, counted)


def tear(number: int) -> None:
    """Let the ``number``-th entry of any journal reach the disk by half."""
    original = journal._write_all
    calls = 0

    def half(file, data):
        nonlocal calls
        calls += 1
        if calls == number:
            original(file, data[: len(data) // 2])
            os.fsync(file.fileno())
            die()
        original(file, data)

    journal._write_all = half


POINTS = {
    "before the pool": lambda: on_call(Pool, "create", 1, after=False),
    "before the initial labels": lambda: on_call(Pool, "query", 1, after=False),
    "between question and answer": lambda: on_call(label_requests, "apply", 1, after=False),
    "before training": lambda: on_call(setup, "fit", 2, after=False),
    "after training": lambda: on_call(setup, "fit", 2, after=True),
    "after scoring": lambda: on_call(selection, "choose_from", 2, after=True),
    "after the weights": lambda: on_call(folder.RunFolder, "save_model", 2, after=True),
    "after the first weights": lambda: on_call(folder.RunFolder, "save_model", 1, after=True),
    "in the middle of a record": lambda: tear(7),
    "after the record": lambda: on_call(folder.RunFolder, "commit", 2, after=True),
    "after the question": lambda: on_call(Pool, "query", 3, after=True),
    "before the answer": lambda: on_call(label_requests, "apply", 3, after=False),
}
MEMBER_POINTS = {
    "between cycles": lambda: on_call(folder.RunFolder, "commit", 2, after=True),
    "after a member's training": lambda: on_call(setup.Setup, "fit", 4, after=True),
    "before the record": lambda: on_call(auxiliary_models.AuxiliaryModels, "save", 2, after=True),
}


def kill_runs(*runs: tuple[Path, str, dict]) -> None:
    """Let a process run experiments, each in a child of its own that is killed.

    Args:
        runs: Folder, name of the point, and changes of the configuration of each.
    """
    table = json.dumps([(str(out), point, changes) for out, point, changes in runs])
    done = subprocess.run(
        [sys.executable, __file__, table], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def run_and_die(out: str, point: str, changes: dict) -> None:
    {**POINTS, **MEMBER_POINTS}[point]()
    Experiment(config(**changes), Path(out)).run()


if __name__ == "__main__":
    import torch._dynamo  # What optimisers import, once for all children.

    torch.set_num_threads(1)
    for out, point, changes in json.loads(sys.argv[1]):
        child = os.fork()
        if not child:
            run_and_die(out, point, changes)
            os._exit(0)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if code != -signal.SIGKILL:
            sys.exit(f"{out} was not killed {point}: {code}")
