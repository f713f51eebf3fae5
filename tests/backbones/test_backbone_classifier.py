"""A backbone by name as the model of an experiment, fine-tuned as a whole."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image

import steepest
from steepest.errors import ConfigError, InputError, ModelError, UnknownNameError
from steepest.models.backbones import find_backbone
from steepest.models.backbones.classifier import BackboneClassifier, build_on_backbone
from steepest.training.augment import normalise

OWN = """
import numpy as np
import torch
from torch import nn


def prepare(image):
    small = np.asarray(image.resize((12, 12)), dtype=np.float32)
    return (torch.from_numpy(small).permute(2, 0, 1) - 100) / 50


def cropped(image):
    return torch.nn.functional.pad(prepare(image), (1, 1, 1, 1))


def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU()), prepare


def odd():
    return net()[0], cropped
"""
SETTINGS = [
    "model.name=backbone:ownnets:net", "strategy.name=margin", "loop.initial=60", "loop.k=10",
    "loop.cycles=2", "loop.init=cold", "training.method=fine-tune", "training.epochs=2",
    "training.optimizer=adam", "training.lr=1e-3", "training.schedule=constant",
]  # fmt: skip


@pytest.fixture
def own(tmp_path, monkeypatch):
    (tmp_path / "ownnets.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(__import__("sys").modules, "ownnets", raising=False)


def build(name="backbone:ownnets:net", channels=3, **options):
    shape = ((0.4, 0.5, 0.6)[:channels], (0.2, 0.3, 0.4)[:channels])
    return build_on_backbone(name, *shape, 5, channels, 1, options)


def test_images_reach_the_net_as_its_own_preparation_makes_them(own):
    pixels = np.random.default_rng(0).integers(0, 256, (2, 12, 12, 3), dtype=np.uint8)
    net = find_backbone("ownnets:net")
    wanted = net.features([net.prepare(Image.fromarray(one)) for one in pixels])
    model = build()
    x = normalise(torch.from_numpy(pixels).permute(0, 3, 1, 2), (0.4, 0.5, 0.6), (0.2, 0.3, 0.4))
    torch.testing.assert_close(model.eval()(x), model.head(wanted.clone()), atol=1e-4, rtol=1e-4)


def test_small_and_grey_images_are_resized_and_repeated(own):
    grey = torch.rand(2, 1, 8, 8)
    assert build(channels=1)(grey).shape == (2, 5)
    assert build(side=16).size == (16, 16)


def test_an_experiment_tunes_the_whole_net_from_a_probe_and_resumes(own, tmp_path):
    config = steepest.load_config("digits", SETTINGS)
    records = steepest.Experiment(config, tmp_path / "whole").run()
    steepest.Experiment(config, tmp_path / "parts").run(until=1)
    resumed = steepest.Experiment(config, tmp_path / "parts").run()
    assert [r.model for r in resumed] == [r.model for r in records]
    assert resumed[0].selected == records[0].selected
    assert records[1].metrics["accuracy"] > 0.3  # Ten classes; the net's filters are random.
    experiment = steepest.Experiment(config, tmp_path / "whole")
    model, fresh = (experiment.setup.fresh_model(config.seed) for _ in range(2))
    from steepest.models import load_weights

    load_weights(model, tmp_path / "whole" / "weights" / "cycle-001.safetensors")
    assert not torch.equal(model.body[0].weight, fresh.body[0].weight)


def test_what_does_not_fit_is_refused_in_one_line(own):
    with pytest.raises(InputError, match="1 or 3 channels"):
        build_on_backbone("backbone:ownnets:net", (0.0,) * 4, (1.0,) * 4, 5, 4, 0, {})
    with pytest.raises(ModelError, match="does more to an image"):
        build("backbone:ownnets:odd")
    with pytest.raises(UnknownNameError, match="side"):
        build(sid=32)
    with pytest.raises(InputError, match="8 pixels"):
        build(side=4)
    with pytest.raises(UnknownNameError, match="timm"):
        build("backbone:tim:resnet18")
    with pytest.raises(ConfigError, match="placement=given"):
        steepest.Experiment(
            steepest.load_config("digits", [*SETTINGS, "strategy.name=mc-dropout"]), "out"
        )


def test_the_head_is_the_seeds(own):
    some, other = build(), build()
    assert torch.equal(some.head.weight, other.head.weight)
    assert isinstance(some, BackboneClassifier)
