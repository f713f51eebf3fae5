"""``compare`` with labels, and with a plan: listed, run, stopped, gone on with."""

from __future__ import annotations

import json
import os
import signal

import pytest
from shell import assert_one_line, contents, essence, finish, run_apart, run_here, start
from test_cli_run_and_report import cycles_of, runs_below, wait_for

PLAN = """
name = "study"

[[group]]
name = "one"
config = "tiny.toml"
seeds = 2
strategies = ["margin"]

[[group]]
name = "two"
config = "tiny.toml"
set = ["loop.cycles=2"]
seeds = [3]
strategies = ["few=egl(draws=2)"]
"""
GO = ["compare", "--plan", "plan.toml", "--quiet", "--jobs", "1", "--out", "out"]
pytestmark = pytest.mark.usefixtures("same_process")


@pytest.fixture
def plan(workshop):
    (workshop / "plan.toml").write_text(PLAN)
    return workshop


def states(told):
    """Return the cells of a list of runs."""
    rows = told.out.split("\n\n")[0].splitlines()[2:]
    return [row.split(maxsplit=3) for row in rows]


def test_a_plan_is_listed_run_and_listed_as_complete(plan, capsys):
    told = run_here(capsys, *GO, "--list")
    assert told.code == 0, told.err
    assert states(told) == [
        ["one", "margin", "0", "not begun"],
        ["one", "random", "0", "not begun"],
        ["one", "margin", "1", "not begun"],
        ["one", "random", "1", "not begun"],
        ["two", "few", "3", "not begun"],
        ["two", "random", "3", "not begun"],
    ]
    assert told.out.endswith("\n0 of 6 runs complete, 16 cycles left\n")
    assert not (plan / "out").exists()

    done = run_here(capsys, *GO, "--missing")
    assert done.code == 0, done.err
    assert "one:\n" in done.out
    assert "AUBC ± sd (n=2)" in done.out
    assert "Report: out/two/report.html" in done.out
    assert done.out.endswith("6 of 6 runs complete\n")
    assert (plan / "out" / "two" / "figures" / "learning-curves.svg").is_file()
    assert sorted(runs_below(plan / "out" / "two")) == ["runs/few/seed-3", "runs/random/seed-3"]

    journal = plan / "out" / "one" / "runs" / "random" / "seed-1" / "records.jsonl"
    journal.write_bytes(journal.read_bytes().splitlines(keepends=True)[0])
    before = contents(plan / "out")
    told = run_here(capsys, *GO, "--dry-run")
    assert states(told)[3] == ["one", "random", "1", "1 of 3 cycles"]
    assert {state for *_, state in states(told)} == {"complete", "1 of 3 cycles"}
    assert told.out.endswith("5 of 6 runs complete, 2 cycles left\n")
    assert contents(plan / "out") == before


@pytest.mark.parametrize(
    ("part", "runs"),
    [
        (["--groups", "two"], ["two few 3", "two random 3"]),
        (["--seeds", "1,"], ["one margin 1", "one random 1"]),
        (["--strategies", "few"], ["two few 3", "two random 3"]),
        (["--strategies", "few,margin", "--seeds", "0,3"], [
            "one margin 0", "one random 0", "two few 3", "two random 3",
        ]),
    ],
)  # fmt: skip
def test_a_part_of_a_plan_is_chosen_by_group_strategy_and_seed(part, runs, plan, capsys):
    told = run_here(capsys, *GO, *part, "--list")
    assert told.code == 0, told.err
    assert [" ".join(cells[:3]) for cells in states(told)] == runs


def test_parts_of_a_plan_add_up_to_it(plan, capsys):
    for part in (["--groups", "two"], ["--seeds", "1,"], ["--seeds", "0,"]):
        told = run_here(capsys, *GO, *part, "--no-report")
        assert told.code == 0, told.err
        assert " complete\n" in told.out
    whole = run_here(capsys, *GO, "--list")
    assert whole.out.endswith("\n6 of 6 runs complete\n")


@pytest.mark.parametrize(
    ("part", "message"),
    [
        (["--groups", "tow"], "unknown group 'tow': did you mean 'two'"),
        (["--groups", ","], "--groups ',': give names"),
        (["--strategies", "margins"], "unknown strategy 'margins': did you mean 'margin'"),
        (["--groups", "two", "--strategies", "margin"], "unknown strategy 'margin'.*known: few"),
        (["--seeds", "5"], "unknown seed '2'.*known: 0, 1, 3"),
        (["--strategies", "few", "--seeds", "0,"], "no group of the plan has"),
    ],
)
@pytest.mark.parametrize("more", [[], ["--list"]])
def test_a_part_that_a_plan_does_not_have_gets_one_line(part, message, more, plan, capsys):
    assert_one_line(run_here(capsys, *GO, *part, *more), message)
    assert not (plan / "out").exists()


@pytest.mark.slow
def test_a_plan_stopped_by_the_user_goes_on_to_the_same_end(plan):
    text = PLAN.replace("seeds = 2\n", 'seeds = 2\nset = ["training.epochs=60"]\n')
    (plan / "plan.toml").write_text(text)
    process = start(*GO, "--no-report", cwd=plan, start_new_session=True)
    wait_for(lambda: any(map(cycles_of, runs_below(plan / "out" / "one").values())), "a cycle")
    os.killpg(process.pid, signal.SIGINT)
    told = finish(process)
    assert told.code == 130, told.err
    assert told.err == "steepest: stopped; run the same command again to go on\n"
    again = run_apart(*GO, "--no-report", cwd=plan)
    assert again.code == 0, again.err
    assert again.out.endswith("6 of 6 runs complete\n")
    alone = ["compare", "tiny.toml", "--set", "training.epochs=60", "--strategies", "margin"]
    run_apart(*alone, "--seeds", "1", "--no-report", "--quiet", "--out", "alone", cwd=plan)
    for name, run in runs_below(plan / "alone").items():
        assert essence(plan / "out" / "one" / name) == essence(run)


def test_time_that_is_up_leaves_the_rest_for_later(plan, capsys):
    told = run_here(capsys, *GO, "--minutes", "0", "--no-report")
    assert told.code == 0, told.err
    assert "one:\nNo statistics yet: no run is complete.\n\n" in told.out
    assert told.out.endswith("0 of 6 runs complete, 16 cycles left\n")


def test_labels_are_compared_under_their_names(workshop, capsys):
    argv = ["compare", "tiny.toml", "--quiet", "--jobs", "1", "--seeds", "1", "--out", "out"]
    argv += ["--set", "loop.cycles=2", "--strategies", "few=egl(draws=2,norm=tensor-sum),margin"]
    listed = run_here(capsys, *argv, "--list")
    assert [row.split()[0] for row in listed.out.splitlines()[2:5]] == ["few", "margin", "random"]
    told = run_here(capsys, *argv)
    assert told.code == 0, told.err
    assert {line.split()[0] for line in told.out.splitlines()[2:5]} == {"few", "margin", "random"}
    assert "few" in (workshop / "out" / "report.html").read_text(encoding="utf-8")
    assert essence(workshop / "out/runs/few/seed-0")[0]["options"]["draws"] == 2
    summary = json.loads((workshop / "out" / "summary.json").read_text())
    assert {entry["strategy"] for entry in summary["strategies"]} == {"few", "margin", "random"}


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ([], "CONFIG_OR_PRESET (or --plan), --strategies"),
        (["tiny.toml"], "required: --strategies"),
        (["--strategies", "margin"], "required: CONFIG_OR_PRESET (or --plan)"),
        (["tiny.toml", "--plan", "plan.toml"], "CONFIG_OR_PRESET: not with --plan"),
        (["tiny.toml", "--strategies", "margin", "--groups", "one"], "--groups: only with --plan"),
        (["--plan", "plan.toml", "--set", "loop.k=3"], "--set: not with --plan"),
        (["--plan", "plan.toml", "--smoke"], "--fast and --smoke: not with --plan"),
    ],
)
def test_arguments_that_do_not_belong_together_show_the_usage(argv, message, plan, capsys):
    told = run_here(capsys, "compare", "--out", "out", *argv)
    assert told.code == 2
    assert told.err.startswith("usage: steepest compare")
    assert message in told.lines[-1]


@pytest.mark.parametrize("more", [[], ["--list"]])
@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("draws=2", "drows=2", "group 'two': .*did you mean 'draws'"),
        ('name = "two"', 'name = "one"', "two groups 'one'"),
        ("seeds = [3]", "seeds = [3, 3]", "seeds"),
    ],
)
def test_a_bad_plan_gets_one_line_and_leaves_nothing(old, new, message, more, plan, capsys):
    (plan / "plan.toml").write_text(PLAN.replace(old, new))
    before = contents(plan)
    assert_one_line(run_here(capsys, *GO, *more), message)
    assert contents(plan) == before


def test_what_shows_with_the_data_is_told_before_the_first_group_begins(plan, capsys):
    (plan / "plan.toml").write_text(PLAN.replace("loop.cycles=2", "loop.initial=9999"))
    before = contents(plan)
    assert_one_line(run_here(capsys, *GO), "asks for 10009 labels")
    assert contents(plan) == before


def test_a_list_of_another_configuration_is_refused(plan, capsys):
    assert run_here(capsys, *GO, "--minutes", "0", "--no-report").code == 0
    (plan / "plan.toml").write_text(PLAN.replace("loop.cycles=2", "loop.cycles=1"))
    assert_one_line(run_here(capsys, *GO, "--list"), "two holds a comparison of another config")


LATE = """
from dataclasses import dataclass

from steepest.strategies import Scorer


@dataclass(frozen=True)
class Late(Scorer):
    def score(self, batch):
        lost = len(batch) > 2  # The look before the runs is at two samples.
        return batch.logits[:, 0] * (float("nan") if lost else 1.0)
"""


def test_a_group_that_fails_does_not_hide_the_others(plan, capsys):
    (plan / "late.py").write_text(LATE)
    text = PLAN.replace('"margin"', '"late=late:Late"')
    (plan / "plan.toml").write_text(text)
    told = run_here(capsys, *GO)
    assert told.code == 2
    *errors, remedy = told.err.splitlines()
    assert len(errors) == 2
    assert all("NaN" in line or "finite" in line for line in errors), errors
    assert "The same command tries what failed again" in remedy
    assert "two:\n" in told.out
    assert told.out.endswith("4 of 6 runs complete, 6 cycles left\n")
    assert (plan / "out/two/report.html").exists()
