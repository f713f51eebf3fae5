"""The processes of a comparison: whose they are, and what is said when they cannot start."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
from small import config

from steepest.core.progress import SilentProgress
from steepest.errors import SteepestError
from steepest.experiment.compare import compare

DOOMED = """
import multiprocessing, os, signal

from torch import nn


def make():
    if multiprocessing.parent_process() is not None:
        os.kill(os.getpid(), signal.SIGKILL)
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
"""

USE = """
from small import config
from steepest.experiment import compare

what = config(training__epochs=1, loop__cycles=1)
"""
CALL = """compare(what, ["random"], [1], "out", jobs=1)
print("compared")
"""


class CtrlC(SilentProgress):
    """As somebody does who sees enough."""

    @contextmanager
    def task(self, description, total):
        def advance(amount=1, note=""):
            raise KeyboardInterrupt

        yield SimpleNamespace(advance=advance)


@pytest.fixture
def bystander():
    """Return a child of this process that no comparison started."""
    child = multiprocessing.get_context("spawn").Process(target=time.sleep, args=(600,))
    child.start()
    yield child
    child.terminate()
    child.join()


def quick(**changes):
    return config(training__epochs=1, loop__cycles=1, **changes)


def test_an_interrupted_comparison_ends_its_own_processes_alone(tmp_path, bystander):
    with pytest.raises(KeyboardInterrupt):
        compare(quick(), ["random"], [1, 2], tmp_path / "out", progress=CtrlC(), jobs=2)
    assert multiprocessing.active_children() == [bystander]


def test_a_killed_worker_is_told_and_takes_no_process_of_the_caller_along(
    tmp_path, bystander, monkeypatch
):
    """As the kernel does when memory runs out."""
    (tmp_path / "doomed_bystander.py").write_text(DOOMED)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SteepestError, match=r"was killed .*--jobs 1") as caught:
        compare(quick(model__name="doomed_bystander:make"), ["random"], [1], tmp_path / "out")
    assert "\n" not in str(caught.value)
    assert multiprocessing.active_children() == [bystander]


def run(folder, program, how):
    (folder / "script.py").write_text(program)
    return subprocess.run(
        [sys.executable, "-" if how == "stdin" else "script.py"],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        input=program,
        timeout=120,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent)},
    )


def test_a_program_from_the_standard_input_can_compare(tmp_path):
    done = run(tmp_path, USE + CALL, "stdin")
    assert done.stdout == "compared\n", done.stderr
    assert done.stderr == ""


def test_a_script_without_a_main_guard_is_told_of_it(tmp_path):
    done = run(tmp_path, USE + CALL, "file")
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith("steepest.errors.SteepestError: a worker process ended at its start")
    assert 'if __name__ == "__main__":' in last
    assert "memory" not in last


def test_a_guarded_script_can_compare_by_a_strategy_of_its_own(tmp_path):
    own = """
from steepest.strategies.base import STRATEGIES

STRATEGIES.register("mine")(STRATEGIES.get("margin"))
"""
    call = CALL.replace('"random"', '"mine"').replace("\n", "\n    ")
    done = run(tmp_path, f"{USE}{own}if __name__ == '__main__':\n    {call}", "file")
    assert done.stdout == "compared\n", done.stderr
