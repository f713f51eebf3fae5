"""With which weights a cycle's training begins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from steepest.core.files import expand_home
from steepest.core.seeds import derive
from steepest.data import ImageSet
from steepest.errors import ConfigError, UnknownNameError
from steepest.experiment.config import ModelPart
from steepest.experiment.folder import RunFolder
from steepest.models import build
from steepest.modules.lazy import find_lazy, make_lazy
from steepest.modules.weights import load_weights
from steepest.training.augment import normalise

if TYPE_CHECKING:
    from steepest.experiment.loop import Experiment


def starting_model(
    experiment: Experiment,
    folder: RunFolder,
    cycle: int,
    previous: nn.Module | None,
    member: int = 0,
) -> nn.Module:
    """Return the model that a cycle trains.

    Fresh weights depend on the seed, the cycle and the member alone, so that all strategies of a
    seed begin with the same ones.

    Args:
        experiment: Says how weights carry over from cycle to cycle, and makes fresh models.
        folder: Holds the weights of the cycle before, after a restart.
        cycle: Which cycle begins.
        previous: The model of the cycle before, if this process has trained it.
        member: Which model of a committee; 0 is the task's own.
    """
    loop = experiment.config.loop
    seed = derive(experiment.config.seed, "member", member) if member else experiment.config.seed
    first = seed if cycle == 0 else derive(seed, "fresh weights", cycle)
    if cycle == 0 or loop.init == "cold":
        return experiment.fresh_model(first)
    if previous is None:
        previous = experiment.fresh_model(first)
        folder.load_model(previous, cycle - 1, member)
    if loop.init == "warm":
        return previous
    return _shrink_and_perturb(previous, experiment.fresh_model(first), loop.shrink, loop.perturb)


def fresh_model(
    part: ModelPart, data: ImageSet, seed: int, options: Mapping[str, Any] | None = None
) -> nn.Module:
    """Return a model that fits the data, with first weights by the seed or from a file.

    Args:
        part: Which model.
        data: Says the number of classes and channels.
        seed: Decides the weights.
        options: More options, where the model's own do not say otherwise.
    """
    model = _build(part, data, seed, options or {})
    if find_lazy(model):
        images = data.train_images[:2]
        make_lazy(model, normalise(images, data.mean, data.std), seed)
    if part.weights is not None:
        load_weights(model, expand_home(part.weights), layers=part.layers or None)
    return model


def _build(part: ModelPart, data: ImageSet, seed: int, options: Mapping[str, Any]) -> nn.Module:
    try:
        chosen = {**options, **part.options}
        return build(part.name, len(data.classes), data.channels, seed, chosen)
    except UnknownNameError as error:
        own = ":" in part.name and error.name in options and error.name not in part.options
        if not own or "dropout" not in options:
            raise
        raise ConfigError(
            f"model {part.name!r} takes no option {error.name!r}, which the strategy gives it: for "
            "the dropout that the model has, set the strategy's placement=given, as by --set "
            "strategy.options.placement=given or --strategies 'own=bald(placement=given)'"
        ) from error


@torch.no_grad()
def _shrink_and_perturb(
    old: nn.Module, fresh: nn.Module, shrink: float, perturb: float
) -> nn.Module:
    """Return shrink · old + perturb · fresh weights, with fresh normalisation statistics."""
    learnt = dict(old.named_parameters())
    for name, parameter in fresh.named_parameters():
        parameter.mul_(perturb).add_(learnt[name].to(parameter.device), alpha=shrink)
    return fresh
