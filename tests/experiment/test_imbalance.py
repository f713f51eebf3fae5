"""Rare classes in an experiment: the configuration asks for them."""

from __future__ import annotations

import json

import pytest
import torch
from small import config, essence

from steepest.data import from_arrays, load
from steepest.data.alterations import long_tailed
from steepest.errors import ConfigError, InputError
from steepest.experiment import Experiment
from steepest.experiment.building import load_data
from steepest.experiment.report.gallery import Pictures

RARE = {"name": "digits", "imbalance": 10.0}


def counts_of(data):
    return torch.bincount(data.train_labels.unseal("test"), minlength=len(data.classes)).tolist()


def make_even(classes=3, each=130):
    """Images whose first pixel is their class and whose second and third are their row."""
    labels = torch.arange(classes * each) % classes
    images = torch.zeros(len(labels), 2, 2, dtype=torch.uint8)
    images[:, 0, 0] = labels.to(torch.uint8)
    images[:, 0, 1] = torch.arange(len(labels)).div(256, rounding_mode="floor").to(torch.uint8)
    images[:, 1, 1] = (torch.arange(len(labels)) % 256).to(torch.uint8)
    names = [f"class {n}" for n in range(classes)]
    parts = (images.numpy(), labels.numpy(), images[:6].numpy(), labels[:6].numpy())
    return from_arrays(*parts, names, name="even")


def rows_of(data):
    first, second = data.train_images[:, 0, 0, 1].long(), data.train_images[:, 0, 1, 1].long()
    return (first * 256 + second).tolist()


def test_classes_fall_from_all_to_the_share_that_was_asked_for():
    assert counts_of(long_tailed(make_even(), 100.0)) == [130, 13, 2]
    assert counts_of(long_tailed(make_even(2), 10.0)) == [130, 13]
    assert counts_of(long_tailed(make_even(each=4), 1e6)) == [4, 1, 1]


def test_images_keep_their_labels_and_order():
    made = long_tailed(make_even(), 20.0)
    assert made.train_images[:, 0, 0, 0].tolist() == made.train_labels.unseal("test").tolist()
    assert rows_of(made) == sorted(rows_of(made))
    assert list(made.ids) == list(range(len(made.train_images)))
    assert len(made.test_images) == 6


def test_more_imbalance_takes_away_and_brings_nothing_new():
    assert set(rows_of(long_tailed(make_even(), 50.0))) < set(
        rows_of(long_tailed(make_even(), 5.0))
    )


def test_a_run_has_the_classes_that_were_asked_for():
    whole, rare = counts_of(load("digits")), counts_of(load_data(config(data=RARE)))
    assert rare[0] == whole[0]
    assert rare[-1] == -(-whole[-1] // 10)
    assert len(load_data(config(data=RARE)).test_labels) == len(load("digits").test_labels)


def test_a_run_from_before_the_setting_goes_on(tmp_path):
    before = Experiment(config(loop__cycles=1), tmp_path).run()
    stored = json.loads((tmp_path / "config.json").read_text())
    assert stored["data"].pop("imbalance") == 1.0
    (tmp_path / "config.json").write_text(json.dumps(stored))
    assert essence(Experiment(config(loop__cycles=1), tmp_path).run()) == essence(before)


def test_a_report_shows_the_images_that_the_run_had():
    kept = load_data(config(data=RARE))
    shown = Pictures({"data": RARE})
    row = len(kept.train_images) - 1
    assert shown.uri(row) is not None
    assert shown.uri(row + 1) is None


@pytest.mark.parametrize("value", [0.5, 0, -3, float("nan"), float("inf")])
def test_imbalance_is_at_least_1(value):
    with pytest.raises(ConfigError, match="imbalance must be at least 1"):
        config(data={"name": "digits", "imbalance": value})


def test_several_labels_are_refused():
    several = make_even()
    object.__setattr__(several, "test_labels", several.test_labels.to(torch.uint8))
    with pytest.raises(InputError, match="imbalance is for one class per sample"):
        long_tailed(several, 2.0)
