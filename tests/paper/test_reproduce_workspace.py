"""What artefacts are given of a run: its model, its data, and who was chosen from whom."""

from __future__ import annotations

import dataclasses
import time
from dataclasses import replace

import pytest
import torch
from fake_records import fill, level_of

from steepest.errors import InputError, RunFolderError
from steepest.experiment import Experiment, load_config
from steepest.experiment.report.store import Store
from steepest.modules.fingerprint import fingerprint
from steepest.paper.level import Setting
from steepest.paper.needed_runs import Need
from steepest.paper.produce import tell_missing
from steepest.paper.workspace import OutOfTime, Workspace
from steepest.training import evaluate

CHANGES = (
    *("data.limit=120", "loop.initial=20", "loop.k=10", "loop.cycles=3", "loop.subset=40"),
    *("training.epochs=2", "device=cpu"),
)
NEED = Need("cifar10", ("margin",), weights=True)


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    out = tmp_path_factory.mktemp("work")
    level = level_of({"cifar10": Setting(config="digits", set=CHANGES)}, seeds=1)
    made = Workspace(level, out)
    config = load_config("digits", [*CHANGES, "loop.keep_weights=all"])
    config = level.variant("margin", "cifar10").config(config, 0)
    Experiment(config, made.comparison(NEED) / "runs" / "margin" / "seed-0").run()
    return made


@pytest.fixture
def run(work):
    (found,) = work.runs(NEED)
    return found


def test_labelled_sets_grow_by_what_was_selected(work, run):
    sets = [work.labelled(run, cycle) for cycle in range(3)]
    assert [len(s) for s in sets] == [20, 30, 40]
    assert sets[1] == [*sets[0], *run.records[0].selected]
    assert work.labelled(run, -1) == sets[2]
    assert len(set(sets[2])) == 40


def test_candidates_are_those_that_the_loop_chose_from(work, run):
    for cycle in range(2):
        candidates = work.candidates(run, cycle)
        assert len(candidates) == 40
        assert set(run.records[cycle].selected) <= set(candidates)
        assert not set(candidates) & set(work.labelled(run, cycle))


def test_models_of_cycles_are_those_that_were_tested(work, run):
    data = work.data(run)
    for cycle in (0, -1):
        metrics = evaluate(
            work.model(run, cycle),
            work.task(run),
            data.test_images,
            data.test_labels,
            mean=data.mean,
            std=data.std,
            device=torch.device("cpu"),
        )
        assert metrics["accuracy"] == run.records[cycle].metrics["accuracy"]


def test_choosing_after_the_last_cycle_goes_on_where_the_loop_stops(work, run):
    assert work.choice_after(run, 0) == run.records[0].selected
    chosen = work.choice_after(run, 2)
    assert len(chosen) == 10
    assert set(chosen) <= set(work.candidates(run, 2))
    again = Workspace(work.level, work.out, deadline=0.0)
    assert again.choice_after(run, 2) == chosen  # Remembered: no time is needed.


def test_labels_are_read_with_a_purpose(work, run):
    labels = work.labels(run, [3, 1], "a test of the workspace")
    assert labels.shape == (2,)
    assert "a test of the workspace" in work.data(run).train_labels.purposes
    with pytest.raises(InputError):
        work.labels(run, [3], "")


def test_a_cycle_is_shown_without_the_file_that_the_run_began_with(work, run):
    part = dataclasses.replace(run.config.model, weights="gone.pth")
    moved = dataclasses.replace(run, config=dataclasses.replace(run.config, model=part))
    assert fingerprint(work.model(moved, 0)) == run.records[0].model


def test_weights_that_were_not_kept_are_named(work, run, tmp_path):
    elsewhere = replace(run, store=Store(tmp_path))
    with pytest.raises(RunFolderError, match="keep_weights=all"):
        work.model(elsewhere, 1)


def test_what_was_made_is_remembered_and_made_once(tmp_path, work):
    own = Workspace(work.level, tmp_path)
    made = []

    def make():
        made.append(1)
        return {"a": [1, 2.5]}

    assert own.remember("x/y", make) == own.remember("x/y", make) == {"a": [1, 2.5]}
    assert len(made) == 1
    file = tmp_path / "work" / "x" / "y.json"
    for damage in ("{", '{"value": []}', file.read_text().replace("2.5", "2.6")):
        before = len(made)
        file.write_text(damage)
        assert own.remember("x/y", make) == {"a": [1, 2.5]}
        assert len(made) == before + 1


def test_nothing_long_is_begun_when_the_time_is_up(tmp_path, work):
    own = Workspace(work.level, tmp_path, deadline=time.time() - 1)
    with pytest.raises(OutOfTime, match="same command"):
        own.remember("late", lambda: 1)


def test_work_that_runs_out_of_time_keeps_what_is_done(tmp_path, work):
    own = Workspace(work.level, tmp_path)
    done = []
    with own.as_far_as_time_allows() as told:
        done.append(own.remember("first", lambda: 1))
        own.deadline = 0.0
        done.append(own.remember("second", lambda: 2))
    assert done == [1]
    assert len(told) == 1
    assert "same command" in told[0]
    with own.as_far_as_time_allows() as told:
        done.append(own.remember("first", lambda: 3))
    assert (done, told) == ([1, 1], [])


def test_only_the_strategies_that_were_asked_for_are_looked_at(tmp_path):
    level = level_of({"cifar10": Setting(config="cifar10")})
    need = Need("cifar10", ("margin", "random"))
    assert Workspace(level, tmp_path).strategies(need) == ("margin", "random")
    own = Workspace(level, tmp_path, only=("random", "entropy"))
    assert own.strategies(need) == ("random",)
    fill(own, [need], strategies=["random"])
    # Nothing that was asked for is missing; what the table lacks is told all the same.
    assert tell_missing(own, [need]) == ("cifar10: margin left out by --strategies",)


@pytest.mark.parametrize("key", ["../x", "/x", "a/../../x"])
def test_keys_do_not_lead_out_of_the_folder(tmp_path, work, key):
    with pytest.raises(InputError):
        Workspace(work.level, tmp_path).folder(key)


def test_missing_runs_are_told_by_strategy_and_seed(tmp_path):
    level = level_of({"cifar10": Setting(config="cifar10")}, seeds=3)
    own = Workspace(level, tmp_path)
    need = Need("cifar10", ("random", "margin", "entropy"))
    fill(own, [need], strategies=["random"])
    fill(own, [need], strategies=["margin"], seeds=[1])
    assert tell_missing(own, [need]) == (
        "cifar10: no complete run of margin for seeds 0, 2",
        "cifar10: no complete run of entropy for seeds 0, 1, 2",
    )
    own.problems["cifar10", "margin"] = "margin cannot be run here"
    assert "margin cannot be run here" in tell_missing(own, [need])
    assert tell_missing(own, [replace(need, only_if_found=True)]) == ()
