"""The presets have the constants of the paper, and of its code where the paper is silent."""

from __future__ import annotations

import pytest

from steepest.experiment.config import load_config

# initial, k, subset, cycles, epochs, batch, learning rate, milestones, optimiser
PAPER = {
    "cifar10": (5000, 2500, 25000, 7, 200, 128, 0.1, (160,), "sgd"),
    "cifar100": (5000, 2500, 25000, 7, 200, 128, 0.1, (160,), "sgd"),
    "svhn": (7324, 3662, 29302, 7, 200, 128, 0.1, (160,), "sgd"),
    "caltech101": (868, 434, 4340, 7, 50, 64, 0.01, (40,), "sgd"),
    "50c-clean": (2400, 1200, 12000, 7, 100, 64, 0.1, (80,), "sgd"),
    "50c-snr005": (2400, 1200, 12000, 7, 100, 64, 0.1, (80,), "sgd"),
    "imagenet": (128120, 64060, 640600, 5, 100, 64, 1e-4, None, "adam"),
    "cityscapes": (298, 149, 1490, 7, 50, 8, 1e-4, None, "adam"),
}
MODELS = {
    "cifar10": "cifar-resnet18",
    "cifar100": "cifar-resnet18",
    "svhn": "cifar-resnet18",
    "caltech101": "resnet18",
    "50c-clean": "resnet3d-18",
    "50c-snr005": "resnet3d-18",
    "imagenet": "vgg16",
    "cityscapes": "drn-d-22",
}


@pytest.mark.parametrize("name", PAPER)
def test_constants(name):
    initial, k, subset, cycles, epochs, batch, lr, milestones, optimizer = PAPER[name]
    config = load_config(name)
    loop, recipe = config.loop, config.training
    assert (loop.initial, loop.k, loop.candidates, loop.cycles) == (initial, k, subset, cycles)
    assert (recipe.epochs, recipe.batch_size, recipe.lr) == (epochs, batch, lr)
    assert recipe.optimizer == optimizer
    assert loop.init == "warm"
    assert config.model.name == MODELS[name]
    assert config.strategy.options == {"norm": "tensor-sum"}
    if milestones is None:
        assert (recipe.schedule, recipe.weight_decay) == ("constant", 0.0)
    else:
        assert (recipe.schedule, recipe.milestones, recipe.gamma) == ("milestones", milestones, 0.1)
        assert (recipe.momentum, recipe.weight_decay) == (0.9, 5e-4)


@pytest.mark.parametrize("name", PAPER)
def test_the_quick_recipe_changes_the_training_alone(name):
    plain, fast = load_config(name), load_config(name, variant="fast")
    assert fast.training.epochs < plain.training.epochs
    assert (fast.loop, fast.data, fast.model) == (plain.loop, plain.data, plain.model)
