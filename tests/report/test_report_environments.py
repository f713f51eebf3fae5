"""Versions and hardware are those that the records were made with."""

from __future__ import annotations

import json

import pytest
from fake_runs import write_comparison, write_run

from steepest.core.journal import Journal, read_journal
from steepest.experiment.comparison import HARDWARE, VERSIONS, recorded
from steepest.experiment.report import read_comparison, write_report

MIXED = "not the same in all records"


def relabel(folder, **versions):
    """Say of a comparison that it was made with something else than its records say."""
    path = folder / "comparison.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "versions": versions}))


def change(run, cycles=None, **environment):
    """Change what the first records of a run were made with; None takes a value away."""
    path = run / "records.jsonl"
    entries, _ = read_journal(path)
    for entry in entries[:cycles]:
        entry["environment"].update(environment)
    path.unlink()
    journal = Journal(path)
    for entry in entries:
        journal.append(entry)


def report(folder):
    files = write_report(folder)
    return files.html.read_text(encoding="utf-8"), json.loads(files.summary.read_text())


@pytest.fixture
def folder(tmp_path):
    return write_comparison(tmp_path, ("margin", "random"), seeds=(0,), cycles=2)


def test_a_folder_that_was_relabelled_is_reported_by_its_records(folder):
    relabel(folder, steepest="9.9.9", torch="9.9.9+laptop", python="9.9.9", device="a laptop")
    page, summary = report(folder)
    assert "steepest 0.1.0, torch 2.13.0, python 3.11.7" in page
    assert "device cpu, threads 1, platform Linux-6.1-x86_64" in page
    assert "9.9.9" not in page
    assert MIXED not in page
    assert summary["versions"] == {
        "steepest": "0.1.0",
        "torch": "2.13.0",
        "python": "3.11.7",
        "device": "cpu",
        "threads": 1,
        "platform": "Linux-6.1-x86_64",
    }


@pytest.mark.parametrize("cycles", [None, 1], ids=["another run", "another cycle"])
def test_versions_that_differ_are_all_shown_and_said_to(folder, cycles):
    change(folder / "runs" / "random" / "seed-0", cycles, torch="2.11.0+cu130")
    page, summary = report(folder)
    said = next(part for part in page.split("<dd>") if part.startswith("steepest 0.1.0"))
    assert set(said.split("torch ")[1].split(",")[0].split(" / ")) == {"2.13.0", "2.11.0+cu130"}
    assert f"python 3.11.7 ({MIXED})" in said
    assert page.count(MIXED) == 1
    assert sorted(summary["versions"]["torch"]) == ["2.11.0+cu130", "2.13.0"]
    assert summary["versions"]["python"] == "3.11.7"


def test_hardware_that_differs_is_said_to(folder):
    change(folder / "runs" / "random" / "seed-0", device="NVIDIA H200", threads=8)
    page, summary = report(folder)
    told = f"device cpu / NVIDIA H200, threads 1 / 8, platform Linux-6.1-x86_64 ({MIXED})"
    assert told in page
    assert summary["versions"]["threads"] == [1, 8]


def test_what_no_record_tells_is_as_the_folder_was_described(folder):
    for name in ("margin", "random"):
        change(folder / "runs" / name / "seed-0", torch=None, platform=None)
    relabel(folder, torch="2.12.0", python="9.9.9")
    comparison = read_comparison(folder)
    assert recorded(comparison, VERSIONS) == {
        "steepest": ["0.1.0"],
        "torch": ["2.12.0"],
        "python": ["3.11.7"],
    }
    assert recorded(comparison, HARDWARE) == {"device": ["cpu"], "threads": [1]}


def test_before_the_first_record_the_description_is_all_there_is(tmp_path):
    folder = write_comparison(tmp_path, ("margin",), seeds=(0,), missing=[("margin", 0)])
    page, summary = report(folder)
    assert "steepest 0.1.0, torch 2.13.0, python 3.11.7" in page
    assert summary["versions"]["torch"] == "2.13.0"


def test_the_summary_of_a_single_run_has_its_versions(tmp_path):
    _, summary = report(write_run(tmp_path, "margin", 0, cycles=2))
    assert summary["versions"]["torch"] == "2.13.0"
