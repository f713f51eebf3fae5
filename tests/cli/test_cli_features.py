"""Runs, comparisons and reports of samples that are rows of features."""

from __future__ import annotations

import numpy as np
import pytest
from shell import assert_one_line, run_here

import steepest
from steepest.data import from_arrays

SMALL = ["--quiet", "--set", "loop.initial=20", "--set", "loop.k=5", "--set", "loop.cycles=2"]
DATA = ["--set", "data.name=npz", "--set", 'data.options={path="rows.npz", test_share=0.25}']
MLP = ["--set", "model.name=mlp", "--set", "training.epochs=15"]


def make_rows(count=160):
    """Return rows of three classes that differ in two columns of very different size."""
    labels = np.arange(count) % 3
    rows = np.random.default_rng(0).normal(size=(count, 4)) + np.outer(labels, [0, 4, 0, 4])
    return rows * [1, 100, 1, 0.01], labels


@pytest.fixture
def rows(workshop):
    features, labels = make_rows()
    np.savez(workshop / "rows.npz", train_images=features, train_labels=labels)
    return workshop


@pytest.mark.usefixtures("same_process")
def test_a_comparison_of_features_learns_and_has_a_report_without_pictures(rows, capsys):
    argv = ["compare", "digits", *SMALL, *DATA, *MLP, "--seeds", "1", "--jobs", "1"]
    told = run_here(capsys, *argv, "--strategies", "margin,core-set", "--out", "made")
    assert told.code == 0, told.err
    run = steepest.experiment.report.read_comparison(rows / "made").runs["margin", 0]
    assert run.curve("accuracy")[-1] > 0.85
    page = (rows / "made/report.html").read_text(encoding="utf-8")
    assert "npz has features, which are no picture" in page
    assert "data:image/png" not in page


def test_features_and_a_model_for_images_are_told_in_one_line(rows, capsys):
    told = run_here(capsys, "run", "digits", *SMALL, *DATA, "--out", "run")
    assert_one_line(told, r"npz has features \[4\] and no images: set model.name=mlp, or")
    (rows / "lone_models.py").write_text(
        "from torch import nn\n\ndef lone():\n    return nn.Linear(4, 1)\n"
    )
    lone = ["--set", "model.name=lone_models:lone"]
    told = run_here(capsys, "run", "digits", *SMALL, *DATA, *lone, "--out", "run")
    assert_one_line(told, "one logit for each sample.*return a logit for each of them$")
    more = ["--set", "training.augmentation=shift"]
    told = run_here(capsys, "run", "digits", *SMALL, *DATA, *MLP, *more, "--out", "run")
    assert_one_line(told, "not for volumes or features: set training.augmentation=none")


def test_features_of_arrays_are_seen_on_one_scale(rows):
    data = from_arrays(*make_rows(), test_share=0.25)
    config = steepest.load_config("digits", [*SMALL[2::2], "model.name=mlp", "training.epochs=15"])
    (*_, last) = steepest.Experiment(config, rows / "arrays", data=data).run()
    assert last.metrics["accuracy"] > 0.85


def test_a_width_below_one_is_refused(rows, capsys):
    argv = ["run", "digits", *SMALL, *DATA, *MLP, "--set", "model.options.width=0"]
    assert_one_line(run_here(capsys, *argv, "--out", "run"), "width is 0")
