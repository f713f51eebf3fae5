"""With which weights a cycle's training begins."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

from steepest.datasets import ImageSet
from steepest.experiment.config import Config, ModelPart
from steepest.experiment.folder import RunFolder
from steepest.models import build
from steepest.models.weights import load_weights
from steepest.seeds import derive


def starting_model(
    config: Config, data: ImageSet, folder: RunFolder, cycle: int, previous: nn.Module | None
) -> nn.Module:
    """Return the model that a cycle trains.

    Fresh weights depend on the seed and the cycle alone, so that all strategies of a seed begin
    with the same ones.

    Args:
        config: Says how weights carry over from cycle to cycle.
        data: Says the number of classes and channels.
        folder: Holds the weights of the cycle before, after a restart.
        cycle: Which cycle begins.
        previous: The model of the cycle before, if this process has trained it.
    """
    init = config.loop.init
    if cycle == 0 or init == "cold":
        return _fresh_model(config, data, cycle)
    if previous is None:
        previous = _fresh_model(config, data, cycle)
        folder.load_model(previous, cycle - 1)
    if init == "warm":
        return previous
    fresh = _fresh_model(config, data, cycle)
    return _shrink_and_perturb(previous, fresh, config.loop.shrink, config.loop.perturb)


def fresh_model(part: ModelPart, data: ImageSet, seed: int) -> nn.Module:
    """Return a model that fits the data, with first weights by the seed or from a file."""
    model = build(part.name, len(data.classes), data.channels, seed, part.options)
    if part.weights is not None:
        load_weights(model, Path(part.weights).expanduser(), layers=part.layers or None)
    return model


def _fresh_model(config: Config, data: ImageSet, cycle: int) -> nn.Module:
    seed = config.seed if cycle == 0 else derive(config.seed, "fresh weights", cycle)
    return fresh_model(config.model, data, seed)


@torch.no_grad()
def _shrink_and_perturb(
    old: nn.Module, fresh: nn.Module, shrink: float, perturb: float
) -> nn.Module:
    """Return shrink · old + perturb · fresh weights, with fresh normalisation statistics."""
    learnt = dict(old.named_parameters())
    for name, parameter in fresh.named_parameters():
        parameter.mul_(perturb).add_(learnt[name].to(parameter.device), alpha=shrink)
    return fresh
