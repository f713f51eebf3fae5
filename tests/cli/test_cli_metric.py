"""Which metric strategies are compared by, from the command line."""

from __future__ import annotations

import json

import pytest
from shell import assert_one_line, run_here

QUICK = ["--quiet", "--jobs", "1", "--set", "loop.cycles=2", "--set", "training.epochs=1"]
COMPARE = [
    "compare",
    "tiny.toml",
    *QUICK,
    "--strategies",
    "margin",
    "--seeds",
    "1",
    "--out",
    "made",
]

pytestmark = pytest.mark.usefixtures("same_process")


def test_table_and_report_are_about_the_metric_named(workshop, capsys):
    told = run_here(capsys, *COMPARE, "--metric", "balanced_accuracy")
    assert told.code == 0, told.err
    assert "final balanced accuracy" in told.out
    summary = workshop / "made" / "summary.json"
    assert json.loads(summary.read_text())["metric"] == "balanced_accuracy"
    assert "Balanced test accuracy" in (workshop / "made" / "report.html").read_text()
    header = (workshop / "made" / "curves.csv").read_text().splitlines()[0].split(",")
    assert header[4:7] == ["balanced_accuracy", "accuracy", "loss"]
    assert run_here(capsys, "report", "made").code == 0
    assert json.loads(summary.read_text())["metric"] == "accuracy"
    assert run_here(capsys, "report", "made", "--metric", "balanced_accuracy").code == 0
    assert json.loads(summary.read_text())["metric"] == "balanced_accuracy"
    told = run_here(capsys, "report", "made", "--metric", "kappa")
    assert_one_line(told, "'kappa': margin with seed 0 .*choose one of accuracy, balanced_accuracy")


@pytest.mark.parametrize("more", [[], ["--list"]])
def test_a_comparison_by_an_unknown_metric_does_not_begin(more, workshop, capsys):
    told = run_here(capsys, *COMPARE, *more, "--metric", "balanced")
    assert_one_line(told, "unknown metric of classification 'balanced': .*balanced_accuracy")
    assert not (workshop / "made").exists()


PLAN = """
name = "study"

[[group]]
name = "one"
config = "tiny.toml"
set = ["loop.cycles=2", "training.epochs=1"]
seeds = 1
strategies = ["margin"]
"""


def test_the_groups_of_a_plan_are_compared_by_it(workshop, capsys):
    (workshop / "plan.toml").write_text(PLAN)
    go = ["compare", "--plan", "plan.toml", "--quiet", "--jobs", "1", "--out", "out"]
    assert_one_line(run_here(capsys, *go, "--metric", "miou"), "unknown metric of classification")
    told = run_here(capsys, *go, "--metric", "balanced_accuracy")
    assert told.code == 0, told.err
    assert "final balanced accuracy" in told.out
    summary = json.loads((workshop / "out" / "one" / "summary.json").read_text())
    assert summary["metric"] == "balanced_accuracy"
