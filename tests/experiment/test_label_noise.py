"""Wrong labels in an experiment: the configuration asks for them, old ones go on without."""

from __future__ import annotations

import json

import pytest
import torch
from small import config, essence

from steepest.data import ImageSet, SealedLabels, load
from steepest.data.base import DATASETS
from steepest.errors import ConfigError, InputError, RunFolderError
from steepest.experiment import Experiment
from steepest.experiment.building import load_data
from steepest.experiment.config import completed

NOISY = {"name": "digits", "label_noise": 0.4}


def run(made, folder):
    return Experiment(made, folder).run()


def labels_of(made):
    return load_data(made).train_labels.unseal("test")


def test_the_labels_of_a_run_are_wrong_as_often_as_asked():
    true = load("digits").train_labels.unseal("test")
    assert bool((labels_of(config()) == true).all())
    assert (labels_of(config(data=NOISY)) != true).float().mean().item() == pytest.approx(
        0.4, abs=0.06
    )


def test_seeds_and_strategies_meet_the_same_errors():
    first = labels_of(config(data=NOISY))
    other = config(data=NOISY).with_strategy("margin", seed=9)
    assert bool((labels_of(other) == first).all())


@pytest.mark.parametrize("share", [-0.1, 1.0, 2, float("nan")])
def test_a_share_is_from_0_to_below_1(share):
    with pytest.raises(ConfigError, match="label_noise is a share from 0 to below 1"):
        config(data={"name": "digits", "label_noise": share})


def test_a_part_of_the_data_has_its_share_of_errors():
    made = config(data={**NOISY, "limit": 500})
    true = load("digits", limit=500).train_labels.unseal("test")
    assert (labels_of(made) != true).float().mean().item() == pytest.approx(0.4, abs=0.09)


def test_errors_change_what_is_learnt_and_test_labels_do_not_change(tmp_path):
    clean = run(config(loop__cycles=1), tmp_path / "clean")
    noisy = run(config(loop__cycles=1, data=NOISY), tmp_path / "noisy")
    assert essence(clean)[0]["model"] != essence(noisy)[0]["model"]
    assert bool((load_data(config(data=NOISY)).test_labels == load("digits").test_labels).all())


def test_a_run_from_before_the_setting_goes_on_and_errors_are_another_run(tmp_path):
    folder = tmp_path / "run"
    before = run(config(loop__cycles=1), folder)
    stored = json.loads((folder / "config.json").read_text())
    assert stored["data"].pop("label_noise") == 0.0
    (folder / "config.json").write_text(json.dumps(stored))
    assert completed(stored)["data"]["label_noise"] == 0.0
    assert essence(run(config(loop__cycles=1), folder)) == essence(before)
    with pytest.raises(RunFolderError):
        run(config(loop__cycles=1, data=NOISY), folder)


def test_label_maps_are_refused(monkeypatch):
    def reader(root=None):
        images = torch.zeros(4, 1, 8, 8, dtype=torch.uint8)
        maps = torch.zeros(4, 8, 8, dtype=torch.uint8)
        sealed = SealedLabels(maps)
        return ImageSet(
            "maps", ("a", "b"), images, sealed, images, maps, (0.5,), (0.5,), task="segmentation"
        )

    monkeypatch.setitem(DATASETS._entries, "maps", reader)
    made = config(data={"name": "maps", "label_noise": 0.2}, task={"name": "segmentation"})
    with pytest.raises(InputError, match="maps is labelled for segmentation: leave it out"):
        load_data(made)
