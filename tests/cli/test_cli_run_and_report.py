"""Long commands: run, stop, go on, compare, report."""

from __future__ import annotations

import csv
import os
import shlex
import signal
import subprocess
import time
from pathlib import Path

import pytest
from shell import (
    contents,
    essence,
    fill_workshop,
    finish,
    run_apart,
    run_here,
    run_within,
    start,
)

from steepest.core.journal import read_journal

RUN = ["run", "tiny.toml", "--quiet", "--out"]
LONG = ["--set", "training.epochs=40"]
COMPARE = ["compare", "tiny.toml", "--quiet", "--jobs", "2", "--strategies", "margin,entropy"]


def wait_for(condition, what: str, seconds: float = 120) -> None:
    """Wait until something has come true; the limit only keeps a failure from hanging."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"waited in vain for {what}"
        time.sleep(0.02)


def children_of(pid: int) -> list[int]:
    found = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=False
    )
    return [int(line) for line in found.stdout.split()]


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state not in "ZX"


def cycles_of(run: Path) -> int:
    return len(read_journal(run / "records.jsonl")[0])


def runs_below(comparison: Path) -> dict[str, Path]:
    return {
        str(path.parent.relative_to(comparison)): path.parent
        for path in sorted(comparison.glob("runs/*/*/records.jsonl"))
    }


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("experiments")
    fill_workshop(folder)
    return folder


@pytest.fixture(scope="module")
def whole(place):
    """A longer run that nobody disturbed."""
    done = run_within(*RUN, "whole", *LONG, cwd=place)
    assert done.code == 0, done.err
    return place / "whole"


@pytest.fixture(scope="module")
def compared(place):
    """A comparison of two strategies (and random) over two seeds, with its report."""
    done = run_within(*COMPARE, "--seeds", "2", "--out", "compared", cwd=place)
    assert done.code == 0, done.err
    return place / "compared", done


def test_a_run_prints_a_row_for_each_cycle(whole, place, capsys):
    before = contents(whole)
    told = run_here(capsys, "run", place / "tiny.toml", "--quiet", "--out", whole, *LONG)
    assert told.code == 0, told.err
    rows = [line.split() for line in told.out.splitlines() if line.strip()[:1].isdigit()]
    assert [row[:2] for row in rows] == [["0", "20"], ["1", "25"], ["2", "30"]]
    entries = essence(whole)
    assert [row[2] for row in rows] == [f"{e['metrics']['accuracy']:.4f}" for e in entries]
    after = contents(whole)
    assert after["records.jsonl"] == before["records.jsonl"]
    assert after["pool.jsonl"] == before["pool.jsonl"]


def test_the_seed_given_replaces_that_of_the_configuration(workshop, capsys):
    quick = ["--set", "loop.cycles=1", "--set", "training.epochs=1"]
    assert run_here(capsys, *RUN, "a", *quick, "--seed", "8").code == 0
    assert run_here(capsys, *RUN, "b", *quick, "--set", "seed=8").code == 0
    assert essence(workshop / "a") == essence(workshop / "b")
    assert essence(workshop / "a")[0]["seed"] == 8


def test_the_command_for_the_report_can_be_typed_as_it_is_told(workshop, capsys):
    told = run_here(capsys, *RUN, "a ü", "--set", "loop.cycles=1", "--set", "training.epochs=1")
    assert shlex.split(told.out.splitlines()[-1]) == ["Report:", "steepest", "report", "a ü"]


def test_a_run_stopped_by_the_user_goes_on_to_the_same_end(whole, place):
    process = start(*RUN, "stopped", *LONG, cwd=place)
    wait_for(lambda: cycles_of(place / "stopped") >= 1, "the first cycle")
    process.send_signal(signal.SIGINT)
    told = finish(process)
    assert told.code == 130, told.err
    assert told.err == "steepest: stopped; run the same command again to go on\n"
    assert 1 <= cycles_of(place / "stopped") < 3
    again = run_within(*RUN, "stopped", *LONG, cwd=place)
    assert again.code == 0, again.err
    assert essence(place / "stopped") == essence(whole)


def test_a_second_process_in_the_same_folder_is_turned_away(place):
    endless = ["--set", "training.epochs=4000"]  # The first must still be at work: it is killed.
    first = start(*RUN, "shared", *endless, cwd=place)
    wait_for((place / "shared" / "pool.jsonl").exists, "the first process")
    told = run_within(*RUN, "shared", *endless, cwd=place)
    first.kill()
    finish(first)
    assert told.code == 2
    assert len(told.lines) == 1
    assert "shared is in use by another process" in told.err


@pytest.mark.parametrize("init", ["cold", "warm"])
def test_a_run_cut_back_to_an_earlier_cycle_is_the_same_or_refused(init, workshop, capsys):
    """The advice for a damaged journal is to cut it off; no wrong curve may come of it."""
    quick = ["--set", f"loop.init={init}", "--set", "training.epochs=1"]
    quick += ["--set", "loop.keep_weights=all"]
    assert run_here(capsys, *RUN, "cut", *quick).code == 0
    expected = essence(workshop / "cut")
    journal = workshop / "cut" / "records.jsonl"
    journal.write_bytes(journal.read_bytes().splitlines(keepends=True)[0])
    told = run_here(capsys, *RUN, "cut", *quick)
    if told.code == 0:
        assert essence(workshop / "cut") == expected
    else:
        assert told.code == 2
        assert len(told.lines) == 1


def test_a_run_killed_while_its_folder_was_made_goes_on(workshop, capsys, monkeypatch):
    def killed(path: Path, target: Path) -> None:
        raise SystemExit(137)

    quick = ["--set", "loop.cycles=1", "--set", "training.epochs=1"]
    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", killed)
        patch.setattr(Path, "unlink", lambda *_args, **_more: None)
        run_here(capsys, *RUN, "new", *quick)
    assert not (workshop / "new" / "config.json").exists()
    told = run_here(capsys, *RUN, "new", *quick)
    assert told.code == 0, told.err


def test_a_comparison_holds_every_strategy_and_seed_and_a_report(compared):
    folder, done = compared
    assert sorted(runs_below(folder)) == [
        f"runs/{name}/seed-{seed}" for name in ("entropy", "margin", "random") for seed in (0, 1)
    ]
    assert all(cycles_of(run) == 3 for run in runs_below(folder).values())
    assert "AUBC ± sd (n=2)" in done.out
    assert "Report: compared/report.html" in done.out
    assert (folder / "report.html").is_file()


def test_one_more_seed_leaves_complete_runs_untouched(compared, place):
    folder, _ = compared
    before = contents(folder / "runs")
    done = run_within(*COMPARE, "--seeds", "3", "--no-report", "--out", "compared", cwd=place)
    assert done.code == 0, done.err
    assert "AUBC ± sd (n=3)" in done.out
    after = contents(folder / "runs")
    assert {name: after[name] for name in before} == before
    assert len(runs_below(folder)) == 9


def test_a_report_is_written_where_told(compared, tmp_path, capsys):
    folder, _ = compared
    told = run_here(capsys, "report", folder, "--out", tmp_path / "sub" / "page")
    assert told.code == 0, told.err
    target = tmp_path / "sub" / "page"
    assert f"Report: {target / 'report.html'}" in told.out
    page = (target / "report.html").read_text(encoding="utf-8")
    assert all(name in page for name in ("margin", "entropy", "random", "tiny"))
    assert "http://" not in page.replace("http://www.w3.org", "")
    for name in ("learning-curves.png", "learning-curves.svg"):
        assert (target / "figures" / name).stat().st_size > 0
    with (target / "curves.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == sum(cycles_of(run) for run in runs_below(folder).values())
    assert {row["labelled"] for row in rows} == {"20", "25", "30"}


def test_a_single_run_has_a_report_too(whole, tmp_path, capsys):
    told = run_here(capsys, "report", whole, "--out", tmp_path)
    assert told.code == 0, told.err
    assert "margin" in (tmp_path / "report.html").read_text(encoding="utf-8")


def kill_midway(place: Path, out: str) -> list[int]:
    """Kill a comparison after its first cycle; return the worker processes it had."""
    process = start(*COMPARE, *LONG, "--seeds", "2", "--out", out, cwd=place)
    wait_for(lambda: any(map(cycles_of, runs_below(place / out).values())), "a cycle")
    workers = children_of(process.pid)
    process.kill()
    process.wait()
    process.stdout.close()
    process.stderr.close()
    assert len(workers) >= 2
    return workers


def end_all(pids: list[int]) -> None:
    for pid in filter(is_alive, pids):
        os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not any(map(is_alive, pids)), "the workers' end")


@pytest.mark.slow
def test_a_killed_comparison_goes_on_to_the_same_end(place):
    end_all(kill_midway(place, "killed"))
    folder = place / "killed"
    assert 0 < sum(map(cycles_of, runs_below(folder).values())) < 18
    whole = [*COMPARE, *LONG, "--seeds", "2", "--no-report", "--out"]
    again = run_apart(*whole, "killed", cwd=place)
    assert again.code == 0, again.err
    assert len(runs_below(folder)) == 6
    assert run_within(*whole, "undisturbed", cwd=place).code == 0
    for name, run in runs_below(folder).items():
        assert essence(run) == essence(place / "undisturbed" / name)


def test_workers_end_with_the_comparison_that_started_them(place):
    workers = kill_midway(place, "orphans")
    try:
        wait_for(lambda: not any(map(is_alive, workers)), "the workers' end", seconds=10)
    finally:
        end_all(workers)


def test_a_comparison_stopped_by_the_user_stops_within_its_cycle(place):
    more = ["--set", "training.epochs=150", "--seeds", "1", "--jobs", "1", "--out", "halted"]
    process = start(*COMPARE, *more, cwd=place, start_new_session=True)
    wait_for(lambda: any(map(cycles_of, runs_below(place / "halted").values())), "a cycle")
    os.killpg(process.pid, signal.SIGINT)  # what a terminal does
    told = finish(process)
    assert told.code == 130, told.err
    assert told.err == "steepest: stopped; run the same command again to go on\n"
    assert not any(cycles_of(run) == 3 for run in runs_below(place / "halted").values())
