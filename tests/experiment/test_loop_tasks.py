"""The loop with tasks other than one class for each sample."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch

from steepest.core.tables import from_table
from steepest.data import ImageSet, SealedLabels
from steepest.errors import ConfigError, DataError, InputError, ModelError, RunFolderError
from steepest.experiment import Config, Experiment
from steepest.experiment.record import LABELLED_MAPS
from steepest.pool import Pool


def draw(*shape, most=256, seed=0):
    return torch.randint(most, shape, generator=torch.Generator().manual_seed(seed))


def scenes():
    images = draw(10, 3, 16, 16).to(torch.uint8)
    maps = (images[:, 0] > 127).to(torch.uint8)
    maps[:, 0] = 255
    scale = {"mean": (0.5,) * 3, "std": (0.25,) * 3}
    return ImageSet(
        "scenes", ("dark", "light"), images, SealedLabels(maps), images[:4], maps[:4],
        augmentation="flip", task="segmentation", **scale,
    )  # fmt: skip


def several():
    images = draw(30, 1, 8, 8).to(torch.uint8)
    truth = torch.stack([images[:, 0, 0, 0] > 127, images[:, 0, 7, 7] > 127], dim=1)
    return ImageSet(
        "several", ("a", "b"), images, SealedLabels(truth), images[:9], truth[:9],
        mean=(0.5,), std=(0.25,), task="multi-label",
    )  # fmt: skip


def make(task, model, strategy="entropy-gradnorm", k=2):
    return from_table(
        Config,
        {
            "device": "cpu",
            "data": {"name": "digits"},
            "model": {"name": model},
            "task": {"name": task},
            "strategy": {"name": strategy},
            "loop": {"initial": 4, "k": k, "cycles": 2, "subset": 4},
            "training": {"epochs": 1, "batch_size": 2, "lr": 0.01, "schedule": "constant"},
        },
    )


@pytest.mark.parametrize("strategy", ["expected-gradnorm", "margin"])
def test_label_maps_are_learnt_and_the_pool_notes_that_they_are_there(tmp_path, strategy):
    data = scenes()
    config = make("segmentation", "drn-d-22", strategy)
    records = Experiment(config, tmp_path / "run", data=data).run()
    assert [r.labelled for r in records] == [4, 6]
    assert 0 <= records[-1].metrics["miou"] <= 1
    assert len(records[-1].metrics["per_class_iou"]) == 2
    with Pool.open(tmp_path / "run" / "pool.jsonl") as pool:
        ids, labels = pool.labelled()
    assert set(labels) == {"map"}
    assert set(data.train_labels.purposes) == {"maps of labelled samples"}
    assert {record.purposes for record in records} == {(LABELLED_MAPS,)}
    assert {int(i) for i in ids} >= {int(i) for i in records[0].selected}


@pytest.mark.parametrize("strategy", ["entropy-gradnorm", "entropy", "fisher-gradnorm"])
def test_several_labels_are_kept_as_lists(tmp_path, strategy):
    data = several()
    config = make("multi-label", "small-cnn", strategy)
    records = Experiment(config, tmp_path / "run", data=data).run()
    assert 0 <= records[-1].metrics["mean_average_precision"] <= 1
    truth = data.train_labels.unseal("test")
    with Pool.open(tmp_path / "run" / "pool.jsonl") as pool:
        ids, labels = pool.labelled()
    for sample, label in zip(ids, labels, strict=True):
        assert label == truth[int(sample)].nonzero()[:, 0].tolist()


def test_a_strategy_that_cannot_score_the_task_says_so_before_any_training(tmp_path):
    with pytest.raises(InputError, match="egl has no meaning where a sample has many labels"):
        Experiment(make("segmentation", "drn-d-22", "egl"), tmp_path / "run", data=scenes())
    assert not (tmp_path / "run").exists()


def test_labels_of_another_task_are_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"set task\.name=segmentation"):
        Experiment(make("classification", "drn-d-22"), tmp_path / "run", data=scenes())
    with pytest.raises(ModelError, match="one label for each pixel"):
        Experiment(make("segmentation", "resnet18"), tmp_path / "run", data=scenes())
    with pytest.raises(ModelError, match="one label for each sample"):
        Experiment(make("multi-label", "drn-d-22"), tmp_path / "run", data=wide(several()))


def wide(data):
    """Return the same labels for images that any of our models takes."""
    images = draw(30, 3, 16, 16).to(torch.uint8)
    return ImageSet(
        "wide", data.classes, images, data.train_labels, images[:9], data.test_labels,
        mean=(0.5,) * 3, std=(0.25,) * 3, task="multi-label",
    )  # fmt: skip


def test_other_data_is_refused_where_a_run_was_begun(tmp_path):
    config = make("multi-label", "small-cnn", "margin")
    Experiment(config, tmp_path / "run", data=several()).run()
    data = several()
    moved = replace(data, train_images=data.train_images.roll(1, 0))
    with pytest.raises(RunFolderError, match="run on other data"):
        Experiment(config, tmp_path / "run", data=moved).run()
    # Refused before the folder is locked: the right data may come next.
    assert len(Experiment(config, tmp_path / "run", data=several()).run()) == 2


def test_other_test_labels_are_refused_where_a_run_was_begun(tmp_path):
    config = make("multi-label", "small-cnn", "margin")
    Experiment(config, tmp_path / "run", data=several()).run(until=1)
    data = several()
    other = replace(data, test_labels=~data.test_labels)
    with pytest.raises(RunFolderError, match=r"run on other data \(test_content is"):
        Experiment(config, tmp_path / "run", data=other).run()
    assert len(Experiment(config, tmp_path / "run", data=several()).run()) == 2


def test_a_run_from_before_test_labels_counted_goes_on_and_keeps_them_from_then(tmp_path):
    config = make("multi-label", "small-cnn", "margin")
    path = tmp_path / "run" / "data.json"

    def go_on(data, until=None):
        return Experiment(config, tmp_path / "run", data=data).run(until=until)

    def forget():
        stored = json.loads(path.read_text())
        del stored["test_content"]
        path.write_text(json.dumps(stored))
        return path.read_bytes()

    go_on(several(), until=1)
    forget()
    moved = replace(several(), train_images=several().train_images.roll(1, 0))
    with pytest.raises(RunFolderError, match=r"other data \(content is"):
        go_on(moved)
    assert len(go_on(several(), until=1)) == 1
    assert "test_content" in json.loads(path.read_text())
    assert len(go_on(several())) == 2
    # Nothing is left to run: what the run was made with is not told anew.
    old = forget()
    assert len(go_on(several())) == 2
    assert path.read_bytes() == old


def test_the_number_of_classes_is_no_option(tmp_path):
    config = make("multi-label", "small-cnn", "margin")
    changed = replace(config, task=replace(config.task, options={"classes": 3}))
    with pytest.raises(ConfigError, match="is the data set's"):
        Experiment(changed, tmp_path / "run", data=several())


def test_scratch_of_a_kill_is_cleared_away(tmp_path):
    config = make("multi-label", "small-cnn", "margin")
    Experiment(config, tmp_path / "run", data=several()).run()
    left = [tmp_path / "run" / ".steepest-x", tmp_path / "run" / "weights" / ".steepest-y"]
    for path in left:
        path.write_bytes(b"half")
    Experiment(config, tmp_path / "run", data=several()).run()
    assert not any(path.exists() for path in left)


def test_labels_that_cannot_be_measured_are_refused_before_anything_is_trained(tmp_path):
    with pytest.raises(DataError, match="no test sample has any class"):
        replace(several(), test_labels=torch.zeros_like(several().test_labels))
    data = several()
    labels = SealedLabels(torch.ones(len(data.train_labels), 1, dtype=torch.bool))
    one = replace(data, classes=("a",), train_labels=labels, test_labels=data.test_labels[:, :1])
    with pytest.raises(ConfigError, match=r"make it two classes.*task.name=classification"):
        Experiment(make("multi-label", "small-cnn", "margin"), tmp_path / "run", data=one)
