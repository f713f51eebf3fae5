"""From a configuration to its data set, task, fresh model, and the pool as a model sees it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from steepest.core.files import expand_home
from steepest.core.tables import from_table
from steepest.data import ImageSet, load
from steepest.data.alterations import long_tailed, with_wrong_labels
from steepest.errors import ConfigError, UnknownNameError
from steepest.experiment.config import Config, ModelPart
from steepest.experiment.feature_space import load_in_feature_space
from steepest.models import build
from steepest.models.backbones.classifier import PREFIX, build_on_backbone
from steepest.modules.lazy import find_lazy, make_lazy
from steepest.modules.weights import load_weights
from steepest.selecting.options import BatchSize
from steepest.selecting.samples import Samples
from steepest.tasks.base import TASKS, Task
from steepest.training.augment import normalise
from steepest.training.evaluate import normalised_batches

_SMALL = 64 * 64
_POSITIONS = {"cpu": 1 << 18, "cuda": 1 << 22}
"""Pixels or voxels whose gradients are in flight at most, by device."""


def load_data(config: Config) -> ImageSet:
    """Load a configuration's data set, or the requested part and labels of it.

    Raises:
        InputError: If labels are to be wrong, or classes rare, that are not one class per sample.
    """
    part = config.data
    if part.backbone is None:
        data = load(part.name, options=part.options, limit=part.limit)
    else:
        data = load_in_feature_space(part, part.backbone)
    return with_wrong_labels(long_tailed(data, part.imbalance), part.label_noise)


def make_task(config: Config, data: ImageSet) -> Task:
    """Make a configuration's task for a data set.

    Raises:
        ConfigError: If the data set's labels are for another one.
    """
    kind = TASKS.get(config.task.name)
    # A task of the user's own is measured as the one that it varies.
    if kind.headline != TASKS.get(data.task).headline:
        raise ConfigError(
            f"{data.name} is labelled for {data.task}, not for {config.task.name}: set "
            f"task.name={data.task}"
        )
    if "classes" in config.task.options:
        raise ConfigError("[task] options: the number of classes is the data set's; leave it out")
    if data.task == "multi-label" and len(data.classes) < 2:
        raise ConfigError(
            f"{data.name} has one label for each sample to have or not: make it two classes, whole "
            "numbers 0 and 1 [N], and set task.name=classification"
        )
    options = {"classes": len(data.classes), **config.task.options}
    return from_table(kind, options, f"task {config.task.name!r}")


def check_budget(config: Config, data: ImageSet) -> None:
    """Refuse a loop that asks for more labels than there are samples.

    Raises:
        ConfigError: Naming the setting to lower.
    """
    loop = config.loop
    budget = loop.initial + loop.k * (loop.cycles - 1)
    if budget > len(data.ids):
        raise ConfigError(
            f"[loop] asks for {budget} labels, but {data.name} has {len(data.ids)} samples: "
            "lower initial, k or cycles"
        )


def pool_view(data: ImageSet) -> Samples:
    """Return the training images as a pool."""

    def load(positions: Sequence[int], size: int) -> Iterator[Tensor]:
        return normalised_batches(data.train_images, positions, size, data.mean, data.std)

    return Samples(data.ids, load)


def scored_at_once(data: ImageSet, device: torch.device) -> BatchSize:
    """Return how many samples to score together; small ones are left to the scorer."""
    positions = math.prod(data.train_images.shape[2:])
    if positions <= _SMALL:
        return "auto"
    return max(1, _POSITIONS.get(device.type, _POSITIONS["cpu"]) // positions)


def fresh_model(
    part: ModelPart, data: ImageSet, seed: int, options: Mapping[str, Any] | None = None
) -> nn.Module:
    """Return a model that fits the data, with first weights by the seed or from a file.

    Args:
        part: The model.
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
    chosen = {**options, **part.options}
    given = (len(data.classes), data.channels, seed, chosen)
    try:
        if part.name.startswith(PREFIX):
            return build_on_backbone(part.name, data.mean, data.std, *given)
        return build(part.name, *given)
    except UnknownNameError as error:
        own = ":" in part.name and error.name in options and error.name not in part.options
        if not own or "dropout" not in options:
            raise
        raise ConfigError(
            f"model {part.name!r} takes no option {error.name!r}, which the strategy gives it: for "
            "the dropout that the model has, set the strategy's placement=given, as by --set "
            "strategy.options.placement=given or --strategies 'own=bald(placement=given)'"
        ) from error
