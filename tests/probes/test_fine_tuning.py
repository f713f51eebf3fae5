"""The whole net, from a probe on what it makes of the labelled samples."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from steepest.core.progress import SilentProgress
from steepest.errors import ConfigError, InputError, ModelError
from steepest.tasks.classification import Classification
from steepest.training.augment import normalise
from steepest.training.fit import fit
from steepest.training.probes import begin_from_probe, fit_probe
from steepest.training.recipe import Recipe

CPU = torch.device("cpu")
MEAN, STD = (0.4, 0.5, 0.6), (0.2, 0.3, 0.4)


def net(classes=3):
    torch.manual_seed(0)
    body = nn.Sequential(
        nn.Conv2d(3, 12, 3), nn.BatchNorm2d(12), nn.ReLU(), nn.AdaptiveAvgPool2d(1)
    )
    return nn.Sequential(body, nn.Flatten(), nn.Dropout(0.5), nn.Linear(12, classes))


def samples():
    draw = torch.Generator().manual_seed(0)
    labels = torch.arange(60) % 3
    images = torch.randint(0, 160, (60, 3, 6, 6), generator=draw)
    images[torch.arange(60), labels] += 60  # Each class has more of a colour.
    return images.byte(), labels


def test_the_last_layer_becomes_the_probe_on_the_nets_features():
    model, (images, labels) = net().train(), samples()
    body = {name: value.clone() for name, value in model[0].state_dict().items()}
    begin_from_probe(model, images, labels, MEAN, STD, 7, CPU)
    assert model.training
    assert all(torch.equal(value, body[name]) for name, value in model[0].state_dict().items())
    model.eval()
    x = normalise(images, MEAN, STD)
    features = model[0](x).flatten(1)
    wanted = fit_probe(features, labels, 3, seed=7)(features)
    torch.testing.assert_close(model(x), wanted, atol=1e-4, rtol=1e-4)


def losses(**changes):
    model, (images, labels) = net(), samples()
    options = {"epochs": 3, "batch_size": 20, "optimizer": "adam", "lr": 1e-4, **changes}
    recipe = Recipe(schedule="constant", augmentation="none", **options)
    made = fit(
        model, Classification(3), images, labels, recipe, mean=MEAN, std=STD,
        augmentation="none", seed=0, device=CPU, progress=SilentProgress(),
    )  # fmt: skip
    right = model(normalise(images, MEAN, STD)).argmax(1) == labels
    return made.final_loss, float(right.float().mean()), model


def test_training_goes_on_from_the_probe():
    tuned, accuracy, model = losses(method="fine-tune")
    assert accuracy > 0.9
    assert tuned < losses(method="scratch")[0] / 1.3
    fresh = net()
    assert not torch.equal(model[0][0].weight, fresh[0][0].weight)  # The whole net learns.


def test_what_cannot_be_tuned_is_refused():
    images, labels = samples()
    with pytest.raises(ConfigError, match="lr=1e-4 with optimizer=adam"):
        Recipe(method="fine-tune")
    with pytest.raises(InputError, match="one class for each sample"):
        begin_from_probe(net(), images, labels[:, None] > 0, MEAN, STD, 0, CPU)
    with pytest.raises(InputError, match="two classes"):
        begin_from_probe(net(), images, labels * 0, MEAN, STD, 0, CPU)
    without_bias = nn.Sequential(nn.Flatten(), nn.Linear(108, 3, bias=False))
    with pytest.raises(ModelError, match="ends in Linear"):
        begin_from_probe(without_bias, images, labels, MEAN, STD, 0, CPU)
