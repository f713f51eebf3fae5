"""What ``comparison.json`` says of how a folder was made, and keeps saying."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from small import config

from steepest.core.tables import from_table
from steepest.errors import RunFolderError
from steepest.experiment.compare import run_missing
from steepest.experiment.comparison_file import describe, write_description
from steepest.experiment.comparison_runs import Comparing, Run
from steepest.experiment.config import Config, completed
from steepest.experiment.report.read import read_comparison
from steepest.experiment.report.store import open_store
from steepest.experiment.variants import Variant, parse_variants

RESULTS = Path(__file__).resolve().parents[2] / "results"
COMMITTED = ("cifar10-small", "cifar10-fp32", "reproduce/runs/cifar10")

compare_module = sys.modules["steepest.experiment.compare"]
description_module = sys.modules["steepest.experiment.comparison_file"]


@pytest.fixture
def machine(monkeypatch):
    """Return a function that moves us to another machine."""

    def move(torch_version):
        versions = {"torch": torch_version, "device": "cpu"}
        monkeypatch.setattr(description_module, "describe_environment", lambda _: versions)
        return versions

    return move


@pytest.fixture
def done(monkeypatch):
    """Let runs be complete once they have been called for, without running any."""
    complete: set[Path] = set()
    monkeypatch.setattr(Run, "complete", property(lambda run: run.folder in complete))
    monkeypatch.setattr(compare_module, "_check_parts", lambda _: None)
    monkeypatch.setattr(
        compare_module, "_run_all", lambda runs, *_: complete.update(run.folder for run in runs)
    )
    return complete


def go(out, command, seeds=(0,), names=("margin",)):
    run_missing([Comparing(config(), names, seeds, out)], jobs=1, command=command)
    return json.loads((out / "comparison.json").read_text())


def test_a_call_that_runs_nothing_leaves_command_and_versions(tmp_path, machine, done):
    fast = machine("2.11.0+cu130")
    first = go(tmp_path / "out", "steepest compare on the fast machine")
    before = (tmp_path / "out" / "comparison.json").read_bytes()
    machine("2.13.0+cpu")
    assert go(tmp_path / "out", "steepest compare on a laptop") == first
    assert (tmp_path / "out" / "comparison.json").read_bytes() == before
    assert first["command"] == "steepest compare on the fast machine"
    assert first["versions"] == fast
    assert first["calls"] == [{"command": first["command"], "versions": fast}]


def test_a_call_that_runs_something_is_added_to_those_before(tmp_path, machine, done):
    fast = machine("2.11.0+cu130")
    go(tmp_path, "one")
    slow = machine("2.13.0+cpu")
    found = go(tmp_path, "two", seeds=(0, 1))
    assert (found["command"], found["versions"]) == ("one", fast)
    assert found["calls"] == [
        {"command": "one", "versions": fast},
        {"command": "two", "versions": slow},
    ]
    assert found["seeds"] == [0, 1]
    assert read_comparison(tmp_path).versions == fast


def test_the_same_call_again_counts_once(tmp_path, machine, done):
    machine("2.11.0")
    go(tmp_path, "one")
    done.clear()  # It was cut short: the same command goes on.
    assert [call["command"] for call in go(tmp_path, "one")["calls"]] == ["one"]
    done.clear()
    machine("2.13.0")
    found = [(c["command"], c["versions"]["torch"]) for c in go(tmp_path, "one")["calls"]]
    assert found == [("one", "2.11.0"), ("one", "2.13.0")]


def test_of_several_comparisons_only_those_that_run_something_tell_of_it(tmp_path, machine, done):
    machine("2.11.0")
    go(tmp_path / "a", "one")
    before = (tmp_path / "a" / "comparison.json").read_bytes()
    both = [Comparing(config(), ["margin"], [0], tmp_path / name) for name in "ab"]
    run_missing(both, jobs=1, command="two")
    assert (tmp_path / "a" / "comparison.json").read_bytes() == before
    assert json.loads((tmp_path / "b" / "comparison.json").read_text())["command"] == "two"


def make_older(out, **changes):
    """Turn a description into one of an older version."""
    path = out / "comparison.json"
    found = {**json.loads(path.read_text()), **changes}
    kept = {key: value for key, value in found.items() if value is not None}
    path.write_text(json.dumps(kept))
    return kept


def test_a_folder_from_before_calls_were_kept_keeps_its_own_as_the_first(tmp_path, machine, done):
    fast = machine("2.11.0")
    go(tmp_path, "one")
    older = make_older(tmp_path, calls=None)
    machine("2.13.0")
    assert go(tmp_path, "two") == older
    found = go(tmp_path, "three", seeds=(1,))
    assert [call["command"] for call in found["calls"]] == ["one", "three"]
    assert found["calls"][0]["versions"] == found["versions"] == fast
    assert found["command"] == "one"


def test_a_folder_that_never_told_begins_with_the_first_call_that_runs(tmp_path, machine, done):
    machine("2.11.0")
    go(tmp_path, "one")
    make_older(tmp_path, calls=None, command=None, versions=None)
    assert not {"command", "versions", "calls"} & set(go(tmp_path, "two"))
    found = go(tmp_path, "three", seeds=(1,))
    assert found["command"] == "three"
    assert [call["command"] for call in found["calls"]] == ["three"]


@pytest.mark.parametrize(
    "part",
    [
        *({"calls": calls} for calls in ("one", ["one"], 1, [1])),
        {"seeds": ["a"]},
        {"seeds": 1},
        {"config": [{}]},
        {"variants": {"margin": "random"}},
    ],
    ids=str,
)
def test_what_is_of_another_kind_than_was_written_is_damage(part, tmp_path, done):
    go(tmp_path, "one")
    make_older(tmp_path, **part)
    with pytest.raises(RunFolderError, match=r"comparison\.json is damaged"):
        go(tmp_path, "two")


@pytest.mark.parametrize("name", COMMITTED)
def test_committed_results_stay_readable_and_keep_what_they_say(name, tmp_path):
    folder = tmp_path / name
    folder.mkdir(parents=True)
    (folder / "comparison.json").write_bytes(
        open_store(RESULTS / f"{name}.tar.xz").read("comparison.json")
    )
    stored = json.loads((folder / "comparison.json").read_text())
    what = from_table(Config, completed(stored["config"]))
    tables = stored.get("variants") or {label: {"name": label} for label in stored["strategies"]}
    variants = [
        Variant(label, table["name"], table.get("options")) for label, table in tables.items()
    ]
    asked = (what, variants, stored["seeds"], folder, "steepest compare again")
    still = describe(*asked, running=False)
    assert {key: still[key] for key in ("command", "versions", "strategies", "seeds")} == {
        key: stored[key] for key in ("command", "versions", "strategies", "seeds")
    }
    assert still.keys() == stored.keys() | {"variants"}
    more = describe(*asked)
    assert (more["command"], more["versions"]) == (stored["command"], stored["versions"])
    assert [call["command"] for call in more["calls"]] == [stored["command"], asked[-1]]
    write_description(more, tmp_path)
    assert read_comparison(tmp_path).command == stored["command"]


def test_what_is_checked_only_is_not_written(tmp_path):
    comparing = Comparing(config(), parse_variants(["margin"]), [0], tmp_path / "out")
    assert comparing.check("steepest …")["command"] == "steepest …"
    assert not (tmp_path / "out").exists()


def test_processes_that_add_at_the_same_time_lose_nothing_of_each_other(
    tmp_path, machine, done, monkeypatch
):
    machine("2.13.0+cpu")
    out = tmp_path / "out"
    plain = Comparing.check
    others = [Comparing(config(), ["entropy"], [1], out)]

    def overtaken(self, command=""):
        told = plain(self, command)
        if others:  # It comes between our look at the folder and our writing.
            others.pop().record("steepest compare the other")
        return told

    monkeypatch.setattr(Comparing, "check", overtaken)
    Comparing(config(), ["margin"], [0], out).record("steepest compare ours")
    written = json.loads((out / "comparison.json").read_text())
    assert set(written["strategies"]) == {"margin", "entropy", "random"}
    assert written["seeds"] == [0, 1]
    assert len(written["calls"]) == 2


def test_a_call_waits_while_another_process_adds_and_says_who_keeps_it(
    tmp_path, machine, done, monkeypatch
):
    machine("2.13.0+cpu")
    monkeypatch.setattr(description_module, "_PATIENCE_SECONDS", 0.0)
    with (
        description_module.adding_to(tmp_path / "out"),
        pytest.raises(RunFolderError, match="is in use by another process"),
    ):
        go(tmp_path / "out", "steepest compare")
    assert go(tmp_path / "out", "steepest compare")["seeds"] == [0]


def test_a_call_that_adds_nothing_writes_nothing(tmp_path, machine, done, monkeypatch):
    machine("2.13.0+cpu")
    first = go(tmp_path / "out", "steepest compare")
    monkeypatch.delattr(description_module, "write_atomically")  # As on a read-only disk.
    monkeypatch.delattr(description_module, "FileLock")
    assert go(tmp_path / "out", "steepest compare") == first
