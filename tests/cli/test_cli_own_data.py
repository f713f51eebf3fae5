"""Data sets, tasks and strategies of the user's own code, as from a shell."""

from __future__ import annotations

import json
import sys

import pytest
from shell import assert_one_line, run_apart, run_here

OWN = """
from dataclasses import dataclass, replace

from steepest.data import load
from steepest.strategies import Scorer
from steepest.tasks import Classification, Task


def few(count: int = 60):
    return replace(load("digits", limit=count), name="few", classes=tuple("abcdefghij"))


@dataclass(frozen=True)
class Tempered(Classification):
    temperature: float = 2.0

    def distributions(self, logits):
        return logits / self.temperature


@dataclass(frozen=True)
class First(Scorer):
    def score(self, batch):
        return batch.logits[:, 0]


class Half(Task):
    pass


class Bare(Task):
    predictions = metrics = targets = None
"""
SMALL = ["--quiet", "--set", "loop.cycles=2", "--set", "training.epochs=1"]
DATA = ["--set", "data.name=shell_parts:few", "--set", "data.options={count=50}"]
COMPARE = ["compare", "tiny.toml", "--strategies", "margin", "--seeds", "1", "--out", "made"]


@pytest.fixture
def parts(workshop):
    (workshop / "shell_parts.py").write_text(OWN)
    sys.modules.pop("shell_parts", None)
    yield workshop
    sys.modules.pop("shell_parts", None)


def test_a_comparison_takes_data_task_and_strategy_in_processes_of_their_own(parts):
    task = ["--set", "task.name=shell_parts:Tempered", "--set", "task.options.temperature=1.5"]
    way = ["--strategies", "shell_parts:First"]
    told = run_apart(*COMPARE, *way, *SMALL, *DATA, *task, "--jobs", "1", cwd=parts)
    assert told.code == 0, told.err
    identity = json.loads((parts / "made/runs/First/seed-0/data.json").read_text())
    assert (identity["name"], identity["train"][0]) == ("few", 50)
    page = (parts / "made/report.html").read_text()
    assert "data:image/png" in page
    assert json.loads((parts / "made/summary.json").read_text())["metric"] == "accuracy"


@pytest.mark.usefixtures("same_process")
def test_a_mere_report_does_not_run_the_code_that_a_folder_names(parts, capsys):
    told = run_here(capsys, *COMPARE, *SMALL, *DATA, "--no-report", "--jobs", "1")
    assert told.code == 0, told.err
    sys.modules.pop("shell_parts")
    told = run_here(capsys, "report", "made")
    assert told.code == 0, told.err
    assert "shell_parts" not in sys.modules
    page = (parts / "made/report.html").read_text()
    assert "shell_parts:few is code, which a mere report does not run" in page
    assert "data:image/png" not in page


def test_its_data_is_checked_like_any_other(parts, capsys):
    told = run_here(capsys, "data", "check", "shell_parts:few", "--set", "count=40", "--quiet")
    assert told.code == 0, told.err
    assert "40" in told.out
    told = run_here(capsys, "data", "check", "shell_parts:few", "--set", "cout=40")
    assert_one_line(told, "unknown option of data set 'shell_parts:few' 'cout': did you mean")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("shell_parts:Half", "has no metrics and predictions and targets: implement it"),
        ("shell_parts:Bare", "is not a dataclass"),
        ("shell_parts:few", "no class that derives from steepest.tasks.Task"),
        ("shell_parts:Gone", "shell_parts has no class 'Gone'"),
        ("nowhere:Task", "No module named 'nowhere'"),
    ],
)
def test_what_is_no_task_is_told_in_one_line(name, message, parts, capsys):
    argv = ["run", "tiny.toml", "--quiet", "--set", f"task.name={name}", "--out", "run"]
    assert_one_line(run_here(capsys, *argv), message)
