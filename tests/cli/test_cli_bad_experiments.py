"""Experiments that cannot begin or go on: one line that says why, nothing left or changed."""

from __future__ import annotations

import json
import shutil

import pytest
from shell import TINY, assert_one_line, contents, run_here, run_within

from steepest.experiment import load_config

OLD = "an older file that must survive\n"

COMPARE = ["compare", "tiny.toml", "--out", "new", "--strategies"]
BAD_EXPERIMENTS = {
    "unknown preset": (["run", "digitz", "--out", "new"], "did you mean 'digits'"),
    "missing configuration": (["run", "no.toml", "--out", "new"], r"no\.toml cannot be read"),
    "folder as configuration": (
        ["run", "folder", "--out", "new"],
        "cannot be read as a configuration: name a preset.* data.name=folder .*path=folder",
    ),
    "data as configuration": (
        [*COMPARE[:1], "rows.npz", *COMPARE[2:], "margin"],
        "cannot be read as a configuration: name a preset.* data.name=npz .*path=rows.npz",
    ),
    "not TOML": (["run", "broken.toml", "--out", "new"], "not valid TOML"),
    "not text": (["run", "binary.toml", "--out", "new"], "not text"),
    "unknown key": (["run", "key.toml", "--out", "new"], "did you mean 'epochs'"),
    "value of wrong type": (["run", "type.toml", "--out", "new"], "expected int, not str"),
    "missing table": (["run", "short.toml", "--out", "new"], "'loop' is missing"),
    "unknown key set": (
        ["run", "tiny.toml", "--out", "new", "--set", "training.epoch=5"],
        "did you mean 'epochs'",
    ),
    "unknown table set": (
        ["run", "tiny.toml", "--out", "new", "--set", "trainings.epochs=5"],
        "did you mean 'training'",
    ),
    "setting without value": (
        ["run", "tiny.toml", "--out", "new", "--set", "seed"],
        "name=value",
    ),
    "setting inside a value": (
        ["run", "tiny.toml", "--out", "new", "--set", "seed.x=1"],
        "is a value, not a table",
    ),
    "unknown data set": (
        ["run", "tiny.toml", "--out", "new", "--set", "data.name=digit"],
        "did you mean 'digits'",
    ),
    "unknown strategy": (
        ["run", "tiny.toml", "--out", "new", "--set", "strategy.name=margn"],
        "did you mean 'margin'",
    ),
    "unknown task": (
        ["run", "tiny.toml", "--out", "new", "--set", "task.name=classify"],
        "unknown task",
    ),
    "no epochs": (["run", "tiny.toml", "--out", "new", "--set", "training.epochs=0"], "epochs"),
    "more wrong labels than there are": (
        ["run", "tiny.toml", "--out", "new", "--set", "data.label_noise=2"],
        "label_noise is a share from 0 to below 1, not 2",
    ),
    "too many labels": (
        ["run", "tiny.toml", "--out", "new", "--set", "loop.initial=9999"],
        "asks for 10009 labels",
    ),
    "out is a file": (["run", "tiny.toml", "--out", "tiny.toml"], "is a file"),
    "out is someone else's": (["run", "tiny.toml", "--out", "folder"], "is not empty"),
    "compare into someone else's": (
        ["compare", "tiny.toml", "--out", "folder", "--strategies", "margin"],
        "is not empty",
    ),
    "compare below a file": (
        ["compare", "tiny.toml", "--out", "tiny.toml/x", "--strategies", "margin"],
        "Not a directory",
    ),
    "compare nothing": ([*COMPARE, ","], "at least one strategy"),
    "compare the unknown": ([*COMPARE, "margin,badg"], "unknown strategy 'badg'"),
    "no seeds": ([*COMPARE, "margin", "--seeds", "0"], "--seeds '0': give a number of at least 1"),
    "a seed below 0": ([*COMPARE, "margin", "--seeds=-1,2"], "--seeds '-1,2'"),
    "seeds in words": ([*COMPARE, "margin", "--seeds", "x"], "--seeds 'x'"),
    "seeds in part": ([*COMPARE, "margin", "--seeds", "1,two"], "--seeds '1,two'"),
    "report of nothing": (["report", "folder"], "holds neither"),
    "report of nowhere": (["report", "new"], "holds neither"),
    "report of a file": (["report", "tiny.toml"], "holds neither"),
}


@pytest.mark.parametrize("case", BAD_EXPERIMENTS)
def test_bad_experiments_get_one_line_and_leave_nothing(case, workshop, capsys):
    argv, message = BAD_EXPERIMENTS[case]
    (workshop / "folder").mkdir()
    (workshop / "folder" / "notes.txt").write_text(OLD)
    (workshop / "broken.toml").write_text("name = \n")
    (workshop / "binary.toml").write_bytes(b"\xff\xfe\x00")
    (workshop / "rows.npz").write_bytes(b"PK\x03\x04\xff")
    (workshop / "key.toml").write_text(TINY.replace("epochs", "epoch"))
    (workshop / "type.toml").write_text(TINY.replace("epochs = 2", 'epochs = "two"'))
    (workshop / "short.toml").write_text('[data]\nname = "digits"\n[model]\nname = "small-cnn"\n')
    before = contents(workshop)
    assert_one_line(run_here(capsys, *argv), message)
    assert contents(workshop) == before


@pytest.mark.parametrize(
    ("command", "model", "message"),
    [
        ("run", "Narrow", "10 classes"),
        ("run", "Raises", "no luck"),
        ("compare", "Raises", "no luck"),
    ],
)
def test_a_model_that_does_not_fit_the_data_is_refused(command, model, message, workshop, capsys):
    argv = [command, "tiny.toml", "--out", "out", "--quiet", "--set", "training.epochs=1"]
    argv += ["--set", f"model.name=user_models:{model}"]
    if command == "compare":
        argv += ["--strategies", "random", "--seeds", "1"]
    assert_one_line(run_here(capsys, *argv), message)


def test_a_run_below_a_file_is_refused(workshop, capsys):
    told = run_here(capsys, "run", "tiny.toml", "--out", "tiny.toml/run")
    assert_one_line(told, "tiny.toml")


@pytest.mark.parametrize(
    "more", [["--jobs", "0"], ["--set", "loop.initial=9999"], ["--set", "model.name=nothing"]]
)
def test_a_comparison_that_cannot_begin_leaves_nothing(more, workshop, capsys):
    """Otherwise the corrected command meets a folder of another configuration."""
    assert run_here(capsys, *COMPARE, "margin", "--seeds", "1", "--quiet", *more).code == 2
    assert not (workshop / "new").exists()


@pytest.mark.parametrize("part", ["model", "data"])
def test_options_that_nobody_reads_are_refused(part, workshop, capsys):
    argv = ["run", "tiny.toml", "--out", "new", "--quiet", "--set", "loop.cycles=1"]
    told = run_here(capsys, *argv, "--set", f"{part}.options.widht=64")
    assert_one_line(told, "unknown option of .*'widht'")


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A finished run, made once."""
    folder = tmp_path_factory.mktemp("finished")
    (folder / "tiny.toml").write_text(TINY)
    done = run_within(
        "run", "tiny.toml", "--out", "run", "--quiet", "--set", "training.epochs=1", cwd=folder
    )
    assert done.code == 0, done.err
    return folder / "run"


@pytest.fixture
def run_folder(finished, workshop):
    return shutil.copytree(finished, workshop / "run")


RESUME = ["run", "tiny.toml", "--out", "run", "--quiet", "--set", "training.epochs=1"]


@pytest.mark.parametrize("name", ["records.jsonl", "pool.jsonl"])
def test_a_damaged_line_is_named_and_nothing_is_changed(name, run_folder, capsys):
    lines = (run_folder / name).read_bytes().splitlines(keepends=True)
    lines[1] = lines[1].replace(b":", b";", 1)
    (run_folder / name).write_bytes(b"".join(lines))
    before = contents(run_folder)
    assert_one_line(run_here(capsys, *RESUME), rf"{name}.*line 2 is damaged")
    after = contents(run_folder)
    assert {k: v[1] for k, v in after.items()} == {k: v[1] for k, v in before.items()}
    if name == "records.jsonl":
        assert_one_line(run_here(capsys, "report", "run"), rf"{name}.*line 2 is damaged")


def test_a_run_folder_of_another_configuration_is_refused(run_folder, capsys):
    before = contents(run_folder)
    told = run_here(capsys, *RESUME, "--set", "loop.k=4")
    assert_one_line(told, r"another configuration \(loop\.k is 5 there and 4 here\)")
    assert_one_line(run_here(capsys, *RESUME, "--seed", "4"), "seed is 3 there and 4 here")
    assert contents(run_folder) == before


@pytest.mark.parametrize("name", ["config.json", "data.json"])
def test_a_damaged_configuration_is_refused(name, run_folder, capsys):
    for text in ("{", "[]", "null"):
        (run_folder / name).write_text(text)
        assert_one_line(run_here(capsys, *RESUME), rf"{name} is damaged: restore")


def test_a_comparison_of_another_configuration_is_refused(workshop, capsys):
    """Also where no run has begun: what is compared is decided first."""
    argv = ["compare", "tiny.toml", "--out", "both", "--strategies", "margin", "--seeds", "1"]
    both = workshop / "both"
    both.mkdir()
    said = {
        "name": "tiny",
        "strategies": ["margin", "random"],
        "seeds": [0],
        "config": load_config("tiny.toml").to_table(),
    }
    (both / "comparison.json").write_text(json.dumps(said))
    before = contents(workshop)
    assert_one_line(run_here(capsys, *argv, "--set", "loop.k=4"), "another configuration")
    assert contents(workshop) == before
    (both / "comparison.json").write_text("{")
    assert_one_line(run_here(capsys, *argv), r"comparison\.json is damaged")
    assert_one_line(run_here(capsys, "report", "both"), r"comparison\.json")
    assert set(contents(workshop)) == set(before)
