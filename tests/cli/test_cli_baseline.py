"""Which strategy others are held against, from the command line."""

from __future__ import annotations

import json

import pytest
from shell import assert_one_line, run_here

QUICK = ["--quiet", "--jobs", "1", "--set", "loop.cycles=2", "--set", "training.epochs=1"]
COMPARE = ["compare", "tiny.toml", *QUICK, "--strategies", "margin", "--out", "made"]

pytestmark = pytest.mark.usefixtures("same_process")


@pytest.fixture
def made(workshop, capsys):
    """A comparison of margin with random over two seeds, and of entropy with one of them."""
    assert run_here(capsys, *COMPARE, "--seeds", "2", "--no-report").code == 0
    more = [part.replace("margin", "entropy") for part in COMPARE]
    assert run_here(capsys, *more, "--seeds", "1", "--no-report").code == 0
    return workshop / "made"


def test_a_strategy_that_comes_later_leaves_the_others_their_seeds(made, capsys):
    told = run_here(capsys, *COMPARE, "--seeds", "2")
    assert told.code == 0, told.err
    rows = {line.split()[0]: line.split()[1] for line in told.out.splitlines()[2:5]}
    assert rows == {"margin": "2", "random": "2", "entropy": "1"}
    page = (made / "report.html").read_text(encoding="utf-8")
    assert "n = 1 to 2 seeds" in page


def test_table_and_report_are_held_against_the_strategy_named(made, capsys):
    told = run_here(capsys, *COMPARE, "--seeds", "2", "--baseline", "margin")
    assert told.code == 0, told.err
    assert "labels saved vs margin" in told.out
    assert json.loads((made / "summary.json").read_text())["baseline"] == "margin"
    told = run_here(capsys, *COMPARE, "--seeds", "2", "--baseline", "entropy", "--no-report")
    assert told.code == 0, told.err
    assert "labels saved vs entropy" in told.out  # It is in the folder, if not in this call.
    assert run_here(capsys, "report", "made", "--baseline", "entropy").code == 0
    assert json.loads((made / "summary.json").read_text())["baseline"] == "entropy"
    assert run_here(capsys, "report", "made").code == 0
    assert json.loads((made / "summary.json").read_text())["baseline"] == "random"


def test_a_baseline_that_is_not_there_is_one_line(made, capsys):
    told = run_here(capsys, "report", "made", "--baseline", "margn")
    assert_one_line(told, "unknown baseline 'margn': did you mean 'margin'")
    assert not (made / "report.html").exists()
    (made / "runs" / "entropy" / "seed-0" / "records.jsonl").unlink()
    told = run_here(capsys, "report", "made", "--baseline", "entropy")
    assert_one_line(told, "'entropy' has no complete run: .* margin, random$")


def test_a_comparison_with_an_unknown_baseline_does_not_begin(workshop, capsys):
    told = run_here(capsys, *COMPARE, "--baseline", "entropy")
    assert_one_line(told, "unknown baseline 'entropy': known: margin, random")
    assert not (workshop / "made").exists()


PLAN = """
name = "study"

[[group]]
name = "with"
config = "tiny.toml"
set = ["loop.cycles=2", "training.epochs=1"]
seeds = 1
strategies = ["margin"]

[[group]]
name = "without"
config = "tiny.toml"
set = ["loop.cycles=2", "training.epochs=1"]
seeds = 1
strategies = ["entropy"]
"""
GO = ["compare", "--plan", "plan.toml", "--quiet", "--jobs", "1", "--out", "out"]


def baselines(out):
    """Return what the report of each group holds the others against."""
    return {
        path.parent.name: json.loads(path.read_text())["baseline"]
        for path in out.glob("*/summary.json")
    }


def test_the_groups_of_a_plan_that_have_the_baseline_use_it(workshop, capsys):
    (workshop / "plan.toml").write_text(PLAN)
    told = run_here(capsys, *GO, "--baseline", "margin")
    assert told.code == 0, told.err
    first, _, second = told.out.partition("without:")
    assert "labels saved vs margin" in first
    assert "labels saved vs random" in second
    assert baselines(workshop / "out") == {"with": "margin", "without": "random"}
    assert run_here(capsys, *GO).code == 0
    assert baselines(workshop / "out") == {"with": "random", "without": "random"}


def test_a_group_whose_baseline_is_not_complete_is_held_against_random(workshop, capsys):
    (workshop / "plan.toml").write_text(PLAN)
    assert run_here(capsys, *GO, "--no-report").code == 0
    (workshop / "out" / "with" / "runs" / "margin" / "seed-0" / "records.jsonl").unlink()
    told = run_here(capsys, *GO, "--minutes", "0", "--no-report", "--baseline", "margin")
    assert told.code == 0, told.err
    assert told.out.endswith("3 of 4 runs complete, 2 cycles left\n")
    assert "vs margin" not in told.out


@pytest.mark.parametrize("more", [[], ["--list"]])
def test_a_plan_none_of_whose_groups_has_the_baseline_does_not_begin(more, workshop, capsys):
    (workshop / "plan.toml").write_text(PLAN)
    told = run_here(capsys, *GO, *more, "--baseline", "entropi")
    assert_one_line(told, "unknown baseline 'entropi': did you mean 'entropy'.*margin, random")
    assert not (workshop / "out").exists()
