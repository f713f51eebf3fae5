from __future__ import annotations

import json

import pytest
import torch
from torch.nn import functional

from steepest.core.progress import SilentProgress
from steepest.data.digits import digits
from steepest.labelling.project.learning import choose_recipe, learn
from steepest.labelling.project.settings import Settings
from steepest.modules.weights import save_weights
from steepest.training.batches import split_order

MOST_VIEWS = 19_200
"""Images that one round of training may look at: people wait for it."""


def enlarge(images, side):
    larger = functional.interpolate(images.float(), size=(side, side), mode="bilinear")
    return larger.round().byte().expand(-1, 3, -1, -1).contiguous()


def share_right(learnt, squares, labels):
    return (learnt.logits(squares).argmax(1) == labels).double().mean().item()


def test_the_usual_model_fits_forty_digits_and_knows_others():
    data, side = digits(), 32
    labels = data.train_labels.unseal("test")[:40]
    squares = enlarge(data.train_images[:40], side)
    settings = Settings(device="cpu", learn="scratch")
    assert settings.side == side
    rows = [json.dumps([label]) for label in labels.tolist()]
    learnt = learn(squares, rows, 10, settings, SilentProgress())
    assert share_right(learnt, squares, labels) >= 0.95
    assert share_right(learnt, enlarge(data.test_images, side), data.test_labels) >= 0.5


@pytest.mark.parametrize("samples", [2, 3, 15, 17, 20, 33, 57, 100, 1001])
def test_batches_from_the_seed_are_about_equal(samples):
    size = choose_recipe(samples, Settings()).batch_size
    sizes = [len(batch) for batch in split_order(torch.arange(samples), size)]
    assert sum(sizes) == samples
    assert max(sizes) <= 24
    assert min(sizes) >= max(sizes) / 2


@pytest.mark.parametrize("samples", [2, 57, 100, 200, 1000, 2000])
def test_a_training_from_the_seed_takes_enough_steps_and_few_enough_views(samples):
    recipe = choose_recipe(samples, Settings())
    assert recipe.epochs * samples <= MOST_VIEWS
    assert recipe.epochs * -(-samples // recipe.batch_size) >= 150


def test_the_learning_rate_suits_the_model_unless_it_is_set():
    small, deep = (choose_recipe(50, Settings(model=m)).lr for m in ("small-cnn", "vgg16"))
    assert small > deep
    assert choose_recipe(50, Settings(lr=0.5)).lr == 0.5
    given = Settings(weights="some.safetensors")
    assert choose_recipe(50, given).lr < deep


def test_given_weights_are_tuned_gently():
    given = Settings(weights="some.safetensors")
    few, many = choose_recipe(10, given), choose_recipe(320, given)
    assert (few.epochs, few.batch_size) == (40, 10)
    assert (many.epochs, many.batch_size) == (15, 32)
    assert few.epochs < choose_recipe(10, Settings()).epochs


@pytest.mark.parametrize("several", [False, True])
def test_fine_tuning_begins_from_the_head_of_a_probe(several, tmp_path):
    """At a learning rate that changes nothing, the net knows what the probe knows."""
    data, weights = digits(), tmp_path / "net.safetensors"
    labels = data.train_labels.unseal("test")[:120]
    squares = enlarge(data.train_images[:120], 32)
    rows = [json.dumps([label]) for label in labels.tolist()]
    usual = {"device": "cpu", "mean": (0.3,) * 3, "std": (0.3,) * 3}
    first = learn(squares, rows, 10, Settings(learn="scratch", **usual), SilentProgress())
    save_weights(first.model, weights)
    # Other names for the same digits: the head in the file knows none of them.
    others = (labels + 1) % 10
    rows = [json.dumps([label]) for label in others.tolist()]
    right = {}
    for way in ("fine-tune", "scratch"):
        tuned = {"weights": str(weights), "lr": 1e-7, "epochs": 1, "multi_label": several}
        settings = Settings(learn=way, **tuned, **usual)
        learnt = learn(squares, rows, 10, settings, SilentProgress())
        right[way] = share_right(learnt, squares, others)
    assert right["fine-tune"] >= 0.9
    assert right["scratch"] <= 0.2
