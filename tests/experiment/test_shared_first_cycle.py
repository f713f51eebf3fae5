"""The first cycle of a seed is trained once, and nothing but time tells the difference."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest
import torch
from safetensors import safe_open
from small import config, essence

import steepest.experiment.setup as run_setup
from steepest.core.tables import from_table
from steepest.data import load
from steepest.errors import SlowPathWarning
from steepest.experiment.loop import Experiment
from steepest.experiment.record import Cost, Record
from steepest.experiment.shared_first_cycle import SharedCycle
from steepest.models import build, save_weights


@pytest.fixture
def trainings(monkeypatch):
    """Count how often something is trained."""
    seen = []

    def counting(*arguments, **more):
        seen.append(more["seed"])
        return fit(*arguments, **more)

    fit = run_setup.fit
    monkeypatch.setattr(run_setup, "fit", counting)
    return seen


def quick(**changes):
    return config(**{"training__epochs": 2, "loop__cycles": 2, "loop__subset": 20, **changes})


def run(tmp_path, name, what, *, shared=True):
    where = tmp_path / "shared" / "cycle-000.safetensors" if shared else None
    return Experiment(what, tmp_path / name, shared=where).run()


@pytest.mark.parametrize("init", ["warm", "cold"])
def test_a_shared_first_cycle_gives_the_records_of_a_run_of_its_own(init, tmp_path, trainings):
    first = run(tmp_path, "a", quick(strategy__name="random", loop__init=init))
    assert len(trainings) == 2
    other = quick(strategy__name="margin", loop__init=init)
    taken = run(tmp_path, "b", other)
    assert len(trainings) == 3
    alone = run(tmp_path, "c", other, shared=False)
    assert essence(taken) == essence(alone)
    assert [r.training.shared for r in first] == [False, False]
    assert [r.training.shared for r in taken] == [True, False]
    assert taken[0].training == replace(first[0].training, shared=True)
    assert taken[0].scoring.shared is False


@pytest.mark.parametrize(
    "change",
    [
        {"seed": 4},
        {"loop__initial": 31},
        {"training__epochs": 1},
        {"training__lr": 0.004},
        {"data__limit": 500},
        {"task__options": {"label_smoothing": 0.1}},
        {"threads": 2},
    ],
    ids=str,
)
def test_the_cycle_of_another_experiment_is_not_taken(change, tmp_path, trainings):
    once = {"loop__cycles": 1}
    run(tmp_path, "a", quick(**once))
    (record,) = run(tmp_path, "b", quick(**once, **change))
    assert len(trainings) == 2
    assert not record.training.shared


def test_first_weights_from_a_file_that_has_changed_are_not_taken(tmp_path, trainings):
    weights = tmp_path / "first.safetensors"
    for name, seed in (("a", 1), ("b", 2)):
        save_weights(build("small-cnn", 10, 1, seed), weights)
        run(tmp_path, name, quick(loop__cycles=1, model__weights=str(weights)))
    assert len(trainings) == 2


@pytest.mark.parametrize("damage", ["cut", "empty", "words", "changed", "cost"])
def test_a_damaged_file_costs_time_and_nothing_else(damage, tmp_path, trainings):
    alone = run(tmp_path, "a", quick(loop__cycles=1))
    (path,) = (tmp_path / "shared").iterdir()
    whole = path.read_bytes()
    changed = bytes([*whole[:-1], whole[-1] ^ 1])
    cost = re.sub(rb'seconds\\": \d', rb'seconds\\": 9', whole)
    damaged = {"cut": whole[:-9], "empty": b"", "words": b"no" * 50, "changed": changed}
    assert (damage == "cost") <= (cost != whole)
    path.write_bytes({**damaged, "cost": cost}[damage])
    with pytest.warns(SlowPathWarning, match=r"trained anew: .*cycle-000.* is damaged"):
        again = run(tmp_path, "b", quick(loop__cycles=1))
    assert essence(again) == essence(alone)
    assert len(trainings) == 2
    assert path.read_bytes() != changed


def test_trainings_of_different_models_lie_side_by_side(tmp_path, trainings):
    plain, thinned = "margin", "mc-dropout"
    for number, name in enumerate([plain, thinned, plain, thinned]):
        run(tmp_path, str(number), quick(loop__cycles=1, strategy__name=name))
    assert len(trainings) == 2


def test_a_model_that_does_not_take_the_weights_is_left_as_it_was(tmp_path):
    path = tmp_path / "cycle.safetensors"
    SharedCycle(path, "key").save(torch.nn.Linear(3, 2), Cost(seconds=1.0, peak_bytes=2))
    other = torch.nn.Linear(3, 4)
    before = {name: value.clone() for name, value in other.state_dict().items()}
    assert SharedCycle(path, "key").load(other, torch.device("cpu")) is None
    assert SharedCycle(path, "key too").load(torch.nn.Linear(3, 2), torch.device("cpu")) is None
    assert all(torch.equal(before[name], value) for name, value in other.state_dict().items())
    with safe_open(SharedCycle(path, "key").path, framework="pt") as file:
        about = json.loads(file.metadata()["steepest"])
    assert about["cost"] == {"seconds": 1.0, "peak_bytes": 2, "epochs": None, "shared": False}


def test_data_that_has_changed_is_not_taken(tmp_path, trainings):
    data = load("digits")
    changed = replace(data, train_images=data.train_images.flip(3))
    where = tmp_path / "cycle-000.safetensors"
    for name, content in (("a", data), ("b", changed)):
        Experiment(quick(loop__cycles=1), tmp_path / name, data=content, shared=where).run()
    assert len(trainings) == 2


def test_a_cycle_that_cannot_be_shared_is_kept_all_the_same(tmp_path):
    (tmp_path / "shared").write_text("a file where the folder should be")
    with pytest.warns(SlowPathWarning, match="not shared"):
        (record,) = run(tmp_path, "a", quick(loop__cycles=1))
    assert not record.training.shared


def test_records_from_before_are_read_as_not_shared(tmp_path):
    (record,) = run(tmp_path, "a", quick(loop__cycles=1), shared=False)
    table = record.to_table()
    del table["training"]["shared"]
    assert Record.from_table(table, "here") == record
    assert from_table(Cost, {"seconds": 1.0, "peak_bytes": 1}).shared is False


def test_other_test_labels_take_the_same_training(tmp_path, trainings):
    data = load("digits")
    other = replace(data, test_labels=data.test_labels.roll(1))
    where = tmp_path / "cycle-000.safetensors"
    accuracies = [
        Experiment(quick(loop__cycles=1), tmp_path / name, data=content, shared=where)
        .run()[0]
        .metrics["accuracy"]
        for name, content in (("a", data), ("b", other))
    ]
    assert len(trainings) == 1
    assert accuracies[0] > accuracies[1]
