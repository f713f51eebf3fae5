"""The loop: budgets, pairing, determinism, and labels that stay hidden."""

from __future__ import annotations

import dataclasses
import json
import time

import numpy as np
import pytest
import torch
from small import config, essence
from torch import nn

from steepest.core.seeds import derive, random_subset
from steepest.data import load
from steepest.errors import (
    ConfigError,
    HiddenLabelError,
    InputError,
    JournalError,
    ModelError,
    RunFolderError,
)
from steepest.experiment import setup
from steepest.experiment.loop import Experiment
from steepest.experiment.record import Cost, expected_end
from steepest.experiment.seeding import initial_ids
from steepest.pool import Pool, State
from steepest.training import fit


def run(tmp_path, name="run", **changes):
    return Experiment(config(**changes), tmp_path / name).run()


def test_each_cycle_adds_k_new_labels_and_the_last_buys_none(tmp_path):
    records = run(tmp_path)
    assert [r.labelled for r in records] == [30, 40, 50]
    assert [len(r.selected) for r in records] == [10, 10, 0]
    assert [r.subset for r in records] == [60, 60, 0]
    bought = [i for r in records for i in r.selected]
    assert len(set(bought)) == 20
    with Pool.open(tmp_path / "run" / "pool.jsonl") as pool:
        assert pool.counts()[State.LABELLED] == 50
        assert pool.counts()[State.QUERIED] == 0
        assert pool.cycle_of(records[1].selected[0]) == 2
        truth = load("digits").train_labels.unseal("test")
        ids, labels = pool.labelled()
        assert labels == truth[ids].tolist()


def test_a_record_tells_the_whole_cycle(tmp_path):
    first, *_, last = run(tmp_path)
    assert 0 < first.metrics["accuracy"] < 1
    assert len(first.metrics["per_class_accuracy"]) == 10
    assert first.training.seconds > 0
    assert first.training.peak_bytes > 10**7
    assert first.scoring.seconds > 0
    assert last.scoring is None
    assert first.regime.samples == 60
    assert [w.id for w in first.wanted] == list(first.selected[:8])
    assert first.unwanted[0].score <= first.unwanted[-1].score < first.wanted[-1].score
    assert first.environment["torch"] == torch.__version__
    lines = (tmp_path / "run" / "records.jsonl").read_text().splitlines()
    assert [json.loads(line)["cycle"] for line in lines] == [0, 1, 2]


def test_the_same_seed_gives_the_same_run_and_another_does_not(tmp_path):
    one = essence(run(tmp_path, "a"))
    assert essence(run(tmp_path, "b")) == one
    assert essence(run(tmp_path, "c", seed=4)) != one


def test_strategies_of_a_seed_share_initial_set_and_weights(tmp_path):
    one = run(tmp_path, "a", strategy__name="random")[0]
    other = run(tmp_path, "b", strategy__name="margin")[0]
    assert one.model == other.model
    assert one.metrics == other.metrics
    assert one.selected != other.selected


def test_every_cycle_trains_with_a_seed_of_its_own(tmp_path, monkeypatch):
    seeds = []

    def noted(*args, seed, **more):
        seeds.append(seed)
        return fit(*args, seed=seed, **more)

    monkeypatch.setattr(setup, "fit", noted)
    run(tmp_path)
    assert seeds == [derive(3, "training", cycle) for cycle in range(3)]


def test_every_cycle_draws_candidates_of_its_own(tmp_path):
    records = run(tmp_path, strategy__name="random", loop__subset=10)
    free = list(load("digits").ids)
    bought = initial_ids(free, 30, 3)
    for cycle, record in enumerate(records[:-1]):
        free = [i for i in free if i not in bought]
        drawn = random_subset(free, 10, derive(3, "selection", cycle))
        # All candidates are bought, so that who they were can be seen.
        assert set(record.selected) == {free[row] for row in drawn}
        bought = record.selected


def test_inits_differ_after_the_first_cycle(tmp_path):
    runs = {
        init: run(tmp_path, init, loop__init=init) for init in ("warm", "cold", "shrink-perturb")
    }
    assert len({records[0].model for records in runs.values()}) == 1
    assert len({records[1].model for records in runs.values()}) == 3


def test_weights_of_all_cycles_can_be_kept(tmp_path):
    run(tmp_path, "last")
    run(tmp_path, "all", loop__keep_weights="all")
    assert len(list((tmp_path / "last" / "weights").iterdir())) == 1
    assert len(list((tmp_path / "all" / "weights").iterdir())) == 3


def test_hidden_labels_cannot_be_read(tmp_path):
    data = load("digits")
    for read in (
        lambda: data.train_labels[0],
        lambda: list(data.train_labels),
        lambda: np.asarray(data.train_labels),
    ):
        with pytest.raises(HiddenLabelError):
            read()
    Experiment(config(), tmp_path / "run", data=data).run()
    assert set(data.train_labels.purposes) == {"oracle labeller"}


def test_the_test_set_chooses_nothing(tmp_path):
    data = load("digits")
    shuffled = dataclasses.replace(data, test_labels=data.test_labels.flip(0))
    one = Experiment(config(), tmp_path / "a", data=data).run()
    other = Experiment(config(), tmp_path / "b", data=shuffled).run()
    assert one[1].metrics != other[1].metrics
    assert [r.selected for r in one] == [r.selected for r in other]
    assert [r.model for r in one] == [r.model for r in other]


def test_a_finished_run_is_left_alone(tmp_path):
    run(tmp_path)
    before = {p: p.read_bytes() for p in (tmp_path / "run").rglob("*") if p.is_file()}
    run(tmp_path)
    assert {p: p.read_bytes() for p in (tmp_path / "run").rglob("*") if p.is_file()} == before


def test_a_folder_of_another_configuration_is_refused_and_kept(tmp_path):
    run(tmp_path)
    before = (tmp_path / "run" / "records.jsonl").read_bytes()
    with pytest.raises(RunFolderError, match=r"loop\.k is 10 there and 11 here"):
        run(tmp_path, loop__k=11)
    assert (tmp_path / "run" / "records.jsonl").read_bytes() == before
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.doc").write_text("mine")
    with pytest.raises(RunFolderError, match="holds no run"):
        run(tmp_path, "other")
    (tmp_path / "file").write_text("mine")
    with pytest.raises(RunFolderError, match="is a file"):
        run(tmp_path, "file")


def test_damaged_records_are_an_error_and_nothing_is_lost(tmp_path):
    run(tmp_path)
    path = tmp_path / "run" / "records.jsonl"
    damaged = path.read_bytes().replace(b'"cycle":1', b'"cycle":7', 1)
    path.write_bytes(damaged)
    with pytest.raises(JournalError, match="line 2 is damaged"):
        run(tmp_path)
    assert path.read_bytes() == damaged


def test_a_budget_beyond_the_data_is_refused_before_training(tmp_path):
    with pytest.raises(ConfigError, match="asks for 2050 labels, but digits has 1297"):
        run(tmp_path, loop__k=1010, loop__subset=2000)
    assert not (tmp_path / "run").exists()


def test_a_wrong_number_of_outputs_is_refused(tmp_path, monkeypatch):
    def build(*_args):
        return nn.Sequential(nn.Flatten(), nn.Linear(64, 12))

    monkeypatch.setattr("steepest.experiment.building.build", build)
    with pytest.raises(ModelError, match="12 outputs, but digits has 10 classes"):
        run(tmp_path)


def test_a_single_logit_is_refused_with_the_remedy(tmp_path, monkeypatch):
    def build(*_args):
        return nn.Sequential(nn.Flatten(), nn.Linear(64, 1))

    monkeypatch.setattr("steepest.experiment.building.build", build)
    with pytest.raises(ModelError, match="one logit for each sample, but the task has 10 classes"):
        run(tmp_path)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(("until", "cycles"), [(0, 0), (1, 1), (9, 3), (None, 3)])
def test_a_run_stops_when_so_many_cycles_are_on_record(tmp_path, until, cycles):
    experiment = Experiment(config(training__epochs=1), tmp_path / "run")
    assert [r.cycle for r in experiment.run(until=until)] == list(range(cycles))


@pytest.mark.parametrize(
    ("done", "slow", "cycles"),
    [
        (1, None, 3),
        (1, "training", 1),
        (1, "scoring", 1),
        (1, "auxiliary", 1),
        (2, "training", 2),
        (2, "scoring", 3),  # The last cycle neither chooses
        (2, "auxiliary", 3),  # nor trains anything but the model.
    ],
)
def test_a_cycle_that_would_end_too_late_is_not_begun(monkeypatch, tmp_path, done, slow, cycles):
    recorded = Experiment._record

    def record(*arguments):
        told = recorded(*arguments)
        return dataclasses.replace(
            told, **{slow: Cost(seconds=7200.0, peak_bytes=1)} if slow else {}
        )

    monkeypatch.setattr(Experiment, "_record", record)
    experiment = Experiment(config(training__epochs=1), tmp_path / "run")
    experiment.run(until=done)
    assert len(experiment.run(deadline=time.time() + 3600)) == cycles


def test_fewer_cycles_than_are_on_record_leave_the_run_alone(tmp_path):
    experiment = Experiment(config(training__epochs=1), tmp_path / "run")
    before = essence(experiment.run(until=2))
    assert essence(experiment.run(until=0)) == before


def test_a_negative_number_of_cycles_is_refused_before_anything_is_written(tmp_path):
    with pytest.raises(InputError, match=r"until is -1: give 0 or more"):
        Experiment(config(), tmp_path / "run").run(until=-1)
    assert not (tmp_path / "run").exists()


def test_labels_that_no_record_asked_for_are_given_back(tmp_path):
    whole = essence(run(tmp_path, "whole", training__epochs=1))
    experiment = Experiment(config(training__epochs=1), tmp_path / "run")
    (record,) = experiment.run(until=1)
    with Pool.open(tmp_path / "run" / "pool.jsonl") as pool:
        other = next(i for i in pool.ids() if pool.state(i) == State.UNLABELLED)
        pool.query([other], cycle=1, who="somebody")
        pool.label([other], [0], cycle=1, who="somebody")
    assert other not in record.selected
    again = Experiment(config(training__epochs=1), tmp_path / "run")
    assert essence(again.run()) == whole


def test_the_state_of_a_training_goes_with_its_cycle(tmp_path):
    experiment = Experiment(config(training__epochs=1), tmp_path / "run")
    experiment.run(until=1)
    left = tmp_path / "run" / "training-2.safetensors"
    left.write_bytes(b"of a member")
    experiment.run(until=2)
    assert not left.exists()


def test_a_cycle_is_expected_to_take_as_much_longer_as_it_has_more_labels(tmp_path, monkeypatch):
    experiment = Experiment(config(training__epochs=1), tmp_path / "run")
    (record,) = experiment.run(until=1)
    monkeypatch.setattr("steepest.experiment.record.time.time", lambda: 1000.0)
    costs = {
        "training": Cost(seconds=60.0, peak_bytes=1),
        "scoring": Cost(seconds=5.0, peak_bytes=1),
    }
    told = dataclasses.replace(record, labelled=30, auxiliary=None, **costs)
    assert expected_end([told], 10, last=False) == 1000.0 + 80.0 + 5.0
    assert expected_end([told], 10, last=True) == 1000.0 + 80.0
