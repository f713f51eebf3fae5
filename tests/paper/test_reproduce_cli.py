"""The command: a list, pages from records alone, and one line for bad input."""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path

import pytest

from steepest.cli.main import main
from steepest.paper.level import FREE
from steepest.pool import FileLock

STUDY = Path(__file__).resolve().parents[2] / "results" / "cifar10-study"


def test_the_list_shows_every_artefact_and_writes_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["reproduce", "--list", "--seeds", "1", "--quiet"]) == 0
    told = capsys.readouterr().out
    for name in ("figure-1", "figure-4", "table-1", "table-3", "table-9", "cycles left"):
        assert name in told
    assert list(tmp_path.iterdir()) == []


def test_records_that_are_kept_become_pages_without_any_run(tmp_path, monkeypatch, capsys):
    monkeypatch.delenv("STEEPEST_DATA", raising=False)
    out, kept = tmp_path / "out", Path("runs", "entropy-gradnorm", "seed-0")
    (tmp_path / "kept").mkdir()
    shutil.unpack_archive(STUDY / "warm.tar.xz", tmp_path, filter="data")
    (tmp_path / "kept" / kept).parent.mkdir(parents=True)
    (tmp_path / "warm" / kept).rename(tmp_path / "kept" / kept)
    command = ["reproduce", "gap", "--from", str(tmp_path / "kept"), "--seeds", "1"]
    assert main([*command, "--minutes", "0", "--quiet", "--out", str(out)]) == 0
    told = capsys.readouterr().out
    assert "partial" in told
    assert re.search(r"\n1 of \d+ runs complete", told)
    assert "steepest data get cifar10" in told  # The same command would not go on: data first.
    assert "goes on" not in told
    page = (out / "table-3" / "page.html").read_text()
    assert "training.amp true instead of false" in page
    assert (out / "index.html").is_file()


def test_without_runs_only_what_is_there_is_taken(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    command = ["reproduce", "gap", "--from", str(STUDY), "--seeds", "1", "--no-runs"]
    assert main([*command, "--strategies", "entropy-gradnorm", "--quiet", "--out", "out"]) == 0
    assert "1 of 1 run complete" in capsys.readouterr().out
    assert not (tmp_path / "out" / "runs").exists()
    data = json.loads((tmp_path / "out" / "table-3" / "data.json").read_text())
    # Whoever finds the page shall not take it for the whole table.
    assert data["state"] == "partial"
    methods, seeds = data["missing"]
    assert methods.startswith("cifar10: mc-dropout, core-set, vaal,")
    assert methods.endswith("left out by --strategies")
    assert seeds == "cifar10: 1 of 3 seeds, by --seeds"
    assert {run["strategy"] for run in data["runs"]} >= {"entropy-gradnorm"}
    # Results can be taken elsewhere: runs are named by the way from here to there.
    for run in data["runs"]:
        comparison = (tmp_path / "out" / run["folder"]).resolve().parents[2]
        assert comparison.with_name(comparison.name + ".tar.xz").is_file()
    assert not any(Path(run["folder"]).is_absolute() for run in data["runs"])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["tabel-3"], "did you mean 'table-3'"),
        ([], "name an artefact"),
        (["table-3"], "--out DIR is missing"),
        (["table-3", "--preset", "papr", "--out", "x"], "did you mean 'paper'"),
        (["table-3", "--set", "loop.k=1", "--out", "x"], "protocol"),
        (["table-3", "--from", "nowhere", "--out", "x"], "no such folder"),
        (["table-3", "--seeds", "0", "--out", "x"], "at least 1"),
        (["table-3", "--strategies", "entopy", "--out", "x"], "did you mean 'entropy'"),
        (["table-3", "--strategies", ",", "--out", "x"], "separated by commas"),
        (["table-2", "--strategies", "egl", "--out", "x"], "are about entropy-gradnorm"),
        (["table-3", "--set", "device=foo", "--out", "x"], "device 'foo'"),
        (["table-3", "--minutes", "nan", "--out", "x"], "at least 0"),
        (["table-3", "--minutes", "-1", "--out", "x"], "at least 0"),
    ],
)
def test_bad_input_is_one_line_and_two(arguments, said, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["reproduce", *arguments, "--quiet"]) == 2
    told = capsys.readouterr().err
    assert said in told
    assert told.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_only_one_command_at_a_time_works_in_a_folder(tmp_path, capsys):
    with FileLock(tmp_path / "reproduce"):
        assert main(["reproduce", "a1", "--smoke", "--quiet", "--out", str(tmp_path)]) == 2
    assert "is in use" in capsys.readouterr().err


def test_the_list_writes_nothing_in_the_smallest_size_either(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["reproduce", "--list", "--smoke", "--quiet"]) == 0
    assert "figure-2" in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []


def test_the_help_says_every_setting_that_may_be_changed(capsys):
    with pytest.raises(SystemExit):
        main(["reproduce", "--help"])
    told = "".join(capsys.readouterr().out.split())
    assert ",".join(FREE) in told


def test_pages_name_the_command_that_was_given(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["another", "program"])
    argv = ["reproduce", "gap", "--from", str(STUDY), "--seeds", "1", "--no-runs", "--quiet"]
    assert main([*argv, "--out", str(tmp_path)]) == 0
    page = (tmp_path / "table-3" / "page.html").read_text()
    assert "steepest reproduce gap --from" in page
    assert "another program" not in page
