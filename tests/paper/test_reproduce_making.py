"""Only what is missing is run, once for all artefacts, and what cannot be run is told."""

from __future__ import annotations

import shutil
import time

import pytest
from fake_records import fill, level_of

from steepest.errors import InputError, ModelError, RunFolderError, SteepestError
from steepest.experiment.config import load_config
from steepest.paper.artefact import Artefact, Findings
from steepest.paper.level import Setting, load_level
from steepest.paper.missing_runs import absent_files, make_missing, wanted_runs
from steepest.paper.needed_runs import Need
from steepest.paper.produce import choose, list_artefacts, tell_missing
from steepest.paper.workspace import Workspace

SETTINGS = {
    "cifar10": Setting(
        config="digits",
        set=(
            *("data.limit=60", "loop.initial=20", "loop.k=5", "loop.cycles=2", "loop.subset=20"),
            *("training.epochs=1", "device=cpu"),
        ),
    ),
    "svhn": Setting(same_as="cifar10"),
    "imagenet": Setting(config="imagenet"),
}
pytestmark = pytest.mark.usefixtures("same_process")


class Trial(Artefact):
    """Needs whatever it is given."""

    def __init__(self, *needs):
        self._needs = needs

    def needs(self):
        return self._needs

    def compute(self, work, published):
        return Findings()


@pytest.fixture
def work(tmp_path):
    return Workspace(level_of(SETTINGS), tmp_path / "out")


def test_runs_that_several_artefacts_need_are_listed_once(work):
    one = Trial(Need("cifar10", ("random", "margin")))
    other = Trial(Need("svhn", ("margin",), weights=True), Need("cifar10", ("egl",)))
    runs = wanted_runs(work, [one, other])
    assert sorted((r.strategy, r.seed) for r in runs) == [
        *(("egl", 0), ("egl", 1), ("margin", 0), ("margin", 1), ("random", 0), ("random", 1)),
    ]
    assert {r.strategy for r in runs if r.need.weights} == {"margin"}


def test_only_missing_runs_are_made_and_the_others_left_alone(work, tmp_path):
    need = Need("cifar10", ("random", "margin"))
    work.sources = [tmp_path / "others"]
    fill(work, [need], strategies=["random"], seeds=[0], where=tmp_path / "others")
    fill(work, [need], strategies=["margin"], seeds=[1], where=tmp_path / "others")
    make_missing(work, [Trial(need)], jobs=2)
    found = {(r.strategy, r.seed): r for r in work.runs(need)}
    assert len(found) == 4
    assert found["random", 0].records[0].model == "0" * 16  # As it was made up.
    assert found["margin", 1].folder.is_relative_to(tmp_path / "others")
    assert found["margin", 0].records[0].model != "0" * 16
    assert found["margin", 0].records[0].labelled == 20
    assert not (work.comparison(need) / "runs" / "margin" / "seed-1").exists()


def test_what_is_not_wanted_at_any_price_is_not_run(work):
    make_missing(work, [Trial(Need("cifar10", ("random",), only_if_found=True))])
    assert not (work.out / "runs").exists()


def test_absent_files_are_told_with_the_command_that_gets_them(work, monkeypatch):
    monkeypatch.delenv("STEEPEST_DATA", raising=False)
    trial = Trial(Need("imagenet", ("random",)))
    make_missing(work, [trial])
    (told,) = tell_missing(work, trial.needs())
    assert "set STEEPEST_DATA to a folder for data sets and run `steepest data get imag" in told
    assert not (work.out / "runs").exists()


def test_absent_weights_are_told_before_anything_is_tried(tmp_path):
    level = load_level("paper", ["50c-clean:model.weights=nets/here.pth"])
    work, trial = Workspace(level, tmp_path / "out"), Trial(Need("50c-clean", ("random", "qbc")))
    make_missing(work, [trial])
    assert tell_missing(work, trial.needs()) == (
        "the weights nets/here.pth are not here: check the path after model.weights=",
    )
    assert not (work.out / "runs").exists()


@pytest.mark.parametrize(("name", "there"), [("digits", True), ("50c-clean", True)])
def test_data_in_the_package_are_never_absent(name, there):
    assert (absent_files(load_config(name)) == "") is there


def test_a_compact_copy_is_not_the_data_set_itself(tmp_path, monkeypatch):
    (tmp_path / "caltech101_64").mkdir()
    (tmp_path / "caltech101_64" / "classes.json").touch()
    monkeypatch.setenv("STEEPEST_DATA", str(tmp_path))
    assert absent_files(load_config("caltech101")).endswith(
        "here: run `steepest data get caltech101`"
    )


def test_a_strategy_that_cannot_be_run_there_is_told_and_the_others_run(work, monkeypatch):
    def refuse(config, folder, data):
        if config.strategy.name == "margin":
            raise ModelError("margin takes something else")

    monkeypatch.setattr("steepest.paper.missing_runs.Experiment", refuse)
    need = Need("cifar10", ("margin", "random"), seeds=1)
    make_missing(work, [Trial(need)], jobs=1)
    assert [run.strategy for run in work.runs(need)] == ["random"]
    (told,) = tell_missing(work, [need])
    assert "margin cannot be run here (margin takes something else)" in told


def test_a_run_that_fails_is_told_and_other_experiments_go_on(work, monkeypatch):
    def fail(comparisons, **how):
        raise SteepestError("the loss is NaN")

    monkeypatch.setattr("steepest.paper.missing_runs.run_missing", fail)
    need = Need("cifar10", ("random",))
    make_missing(work, [Trial(need)], jobs=1)
    assert tell_missing(work, [need]) == ("cifar10: the loss is NaN",)


def test_nothing_is_begun_when_the_time_is_up(work):
    work.deadline = time.time() - 1
    make_missing(work, [Trial(Need("cifar10", ("random",)))])
    assert not (work.out / "runs").exists()


def test_a_folder_of_something_else_is_refused(work):
    need = Need("cifar10", ("random",))
    work.comparison(need).mkdir(parents=True)
    (work.comparison(need) / "holiday.txt").touch()
    with pytest.raises(RunFolderError, match="choose another --out"):
        make_missing(work, [Trial(need)], jobs=1)


def test_jobs_that_make_no_sense_are_refused(work):
    with pytest.raises(InputError, match="jobs"):
        make_missing(work, [Trial(Need("cifar10", ("random",)))], jobs=0)


def test_the_list_tells_what_is_there_and_what_is_left(tmp_path, monkeypatch):
    monkeypatch.delenv("STEEPEST_DATA", raising=False)
    work = Workspace(load_level("paper", seeds=[0]), tmp_path)
    fill(work, [Need("cifar10", ("core-set", "vaal"))])
    told = list_artefacts(work, choose(["table-3"]))
    assert "2 of 7" in told
    assert "35" in told  # Five runs of seven cycles are left.
    assert "steepest data get cifar10" in told


@pytest.mark.parametrize("lost", ["weights/cycle-000.safetensors", "config.json"])
def test_a_run_that_lost_a_part_is_named_with_the_remedy(work, lost):
    need = Need("cifar10", ("random",), weights=True, seeds=1)
    make_missing(work, [Trial(need)], jobs=1)
    (run,) = work.runs(need)
    (run.folder / lost).write_text("") if lost == "config.json" else (run.folder / lost).unlink()
    make_missing(work, [Trial(need)], jobs=1)
    (told,) = tell_missing(work, [need])
    assert str(run.folder) in told
    assert "delete" in told
    shutil.rmtree(run.folder)
    again = Workspace(work.level, work.out)
    make_missing(again, [Trial(need)], jobs=1)
    assert tell_missing(again, [need]) == ()


def test_weights_that_cannot_be_read_are_named_with_the_remedy(work):
    need = Need("cifar10", ("random",), weights=True, seeds=1)
    make_missing(work, [Trial(need)], jobs=1)
    (run,) = work.runs(need)
    run.weights(0).write_bytes(b"cut")
    with pytest.raises(RunFolderError, match=r"delete .*makes that run again"):
        work.model(run, 0)
