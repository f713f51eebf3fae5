"""A fresh model learns what a run has bought: once, and the same each time."""

from __future__ import annotations

import pytest
from fake_records import level_of

from steepest.experiment import Experiment
from steepest.paper.artefact import find_artefact
from steepest.paper.artefacts.table_6 import train_on_choice
from steepest.paper.level import Setting, load_level
from steepest.paper.needed_runs import Need
from steepest.paper.published_numbers import published
from steepest.paper.workspace import OutOfTime, Workspace

NEED = Need("cifar10", ("entropy-gradnorm",), seeds=1)
CHANGES = (
    *("data.limit=120", "loop.initial=20", "loop.k=10", "loop.cycles=2", "loop.subset=40"),
    *("training.epochs=2", "device=cpu"),
)


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    settings = dict(load_level("paper").settings)
    settings["cifar10"] = Setting(config="digits", set=CHANGES)
    made = Workspace(level_of(settings, seeds=1), tmp_path_factory.mktemp("retrained"))
    config = made.wanted(NEED, "entropy-gradnorm", 0)
    Experiment(config, made.comparison(NEED) / "runs" / "entropy-gradnorm" / "seed-0").run()
    return made


def test_it_is_trained_on_all_that_was_bought_and_only_once(work):
    (run,) = work.runs(NEED)
    first = train_on_choice(work, run, "small-cnn")
    assert first["labels"] == 30
    assert 0 <= first["metrics"]["accuracy"] <= 1
    late = Workspace(work.level, work.out, deadline=0.0)
    assert train_on_choice(late, run, "small-cnn") == first
    kept = list((work.out / "work" / "retrained").rglob("*.safetensors"))
    assert kept == []


def test_another_folder_gives_the_same_accuracy(work, tmp_path):
    (run,) = work.runs(NEED)
    again = train_on_choice(Workspace(work.level, tmp_path), run, "small-cnn")
    assert again["metrics"] == train_on_choice(work, run, "small-cnn")["metrics"]


def test_trainings_that_there_is_no_time_for_are_named(work, tmp_path):
    late = Workspace(work.level, tmp_path, sources=[work.out], deadline=0.0)
    with pytest.raises(OutOfTime):
        train_on_choice(late, late.runs(NEED)[0], "small-cnn")
    findings = find_artefact("table-6").compute(late, published("table-6"))
    assert any("entropy-gradnorm (seed 0)" in told for told in findings.missing)
