"""Which strategy others are held against, from the command line."""

from __future__ import annotations

import json

import pytest
from shell import assert_one_line, run_here

QUICK = ["--quiet", "--jobs", "1", "--set", "loop.cycles=2", "--set", "training.epochs=1"]
COMPARE = ["compare", "tiny.toml", *QUICK, "--strategies", "margin", "--out", "made"]


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


def test_a_baseline_is_not_for_plans(workshop, capsys):
    told = run_here(capsys, "compare", "--plan", "p.toml", "--out", "x", "--baseline", "margin")
    assert told.code == 2
    assert "--baseline: not with --plan" in told.err
