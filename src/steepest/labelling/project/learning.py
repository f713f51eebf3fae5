"""From labelled inputs to a trained model, and from a model to probabilities.

An input is a row of features where a probe learns, and a square of pixels where a net does.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from steepest.core.devices import choose_device
from steepest.core.files import expand_home
from steepest.core.progress import Progress
from steepest.core.seeds import derive
from steepest.data.image_view import IMAGENET_MEAN, IMAGENET_STD
from steepest.errors import InputError
from steepest.labelling.project.settings import Settings
from steepest.models import build
from steepest.modules.features import extract_features, find_penultimate
from steepest.modules.lazy import check_made
from steepest.modules.weights import load_weights
from steepest.tasks.base import Task
from steepest.tasks.classification import Classification
from steepest.tasks.multi_label import MultiLabel
from steepest.training.augment import normalise
from steepest.training.evaluate import predict_logits
from steepest.training.fit import fit
from steepest.training.probes import Probe, fit_probe
from steepest.training.probes.learning import put_into
from steepest.training.recipe import Method, Recipe

_BATCH = 32
_LEAST_EPOCHS = 8
_TUNING_STEPS, _MOST_TUNING_EPOCHS, _TUNING_LR = 150, 40, 3e-4
_SCRATCH_BATCH, _SCRATCH_VIEWS, _MOST_EPOCHS = 16, 12_800, 150
"""From the seed: small batches, and as many looks at images as people can wait for."""

_SCRATCH_LR, _SCRATCH_LRS = 1e-3, {"small-cnn": 3e-3}
"""The small net hardly learns at the rate that deep ones, some without BatchNorm, can bear."""


@dataclass(frozen=True, eq=False)
class Learnt:
    """A trained model with the preparation of its inputs.

    Attributes:
        model: In eval mode.
        task: The task that it was trained for.
        mean: Per channel, on the 0..1 scale [3]; empty for a probe.
        std: Per channel, on the same scale [3]; empty for a probe.
        device: Where it is.
    """

    model: nn.Module
    task: Task
    mean: tuple[float, ...]
    std: tuple[float, ...]
    device: torch.device

    def prepare(self, inputs: Tensor) -> Tensor:
        """Return the model's inputs: features unchanged, or normalised pixels."""
        return normalise(inputs, self.mean, self.std) if self.mean else inputs

    @torch.no_grad()
    def logits(self, inputs: Tensor) -> Tensor:
        """Return logits [N, K] for features [N, D] or pixels uint8 [N, 3, S, S]."""
        if not self.mean:
            found: Tensor = self.model(inputs)
            return found
        return predict_logits(self.model, inputs, mean=self.mean, std=self.std, device=self.device)

    def probabilities(self, inputs: Tensor) -> list[list[float]]:
        """Return how likely each class is [N, K]."""
        if not len(inputs):
            return []
        logits = self.logits(inputs).double()
        several = isinstance(self.task, MultiLabel)
        rows: list[list[float]] = (logits.sigmoid() if several else logits.softmax(1)).tolist()
        return rows


def can_learn(labels: Sequence[str], classes: int) -> bool:
    """Return whether there are at least two different labels."""
    return len(set(labels)) >= 2 and classes >= 2


def to_targets(task: Task, labels: Sequence[str]) -> Tensor:
    """Convert stored labels to the targets of a task [N, ...]."""
    lists = [json.loads(text) for text in labels]
    return task.targets(lists if isinstance(task, MultiLabel) else [row[0] for row in lists])


def learn(
    inputs: Tensor,
    labels: Sequence[str],
    classes: int,
    settings: Settings,
    progress: Progress,
    *,
    purpose: str = "",
) -> Learnt:
    """Train a model on all labels: a probe on features, or a net on pixels.

    Args:
        inputs: Features [N, D] where the settings say a probe, otherwise pixels uint8
            [N, 3, S, S].
        labels: As the store keeps them [N].
        classes: The number of classes.
        settings: Say the model and how to train it.
        progress: Updated after each epoch.
        purpose: Tells the draws of several models apart.
    """
    task: Task = MultiLabel(classes) if settings.multi_label else Classification(classes)
    seed = derive(settings.seed, "labelling model", purpose)
    if settings.way == "probe":
        fit_rows = _fit_several if settings.multi_label else fit_probe
        probe = fit_rows(inputs, to_targets(task, labels), classes, seed=seed)
        return Learnt(probe, task, (), (), torch.device("cpu"))
    device = choose_device(settings.device)
    model = make_model(settings, classes, seed)
    mean, std = _statistics(inputs, settings)
    targets = to_targets(task, labels)
    if settings.way == "fine-tune" and settings.multi_label:
        _begin_from_probes(model.to(device), inputs, targets, (mean, std), seed)
    fit(
        model,
        task,
        inputs,
        targets,
        choose_recipe(len(inputs), settings),
        mean=mean,
        std=std,
        augmentation="none",
        seed=seed,
        device=device,
        progress=progress,
    )
    return Learnt(model, task, mean, std, device)


@torch.no_grad()
def _fit_several(inputs: Tensor, targets: Tensor, classes: int, *, seed: int) -> Probe:
    """Fit a probe for each class; its logit says whether a sample has the class.

    Args:
        inputs: Features [N, D].
        targets: Whether each sample has each class [N, K].
        classes: K.
        seed: Of the folds.
    """
    joined = Probe(inputs.shape[1], classes)
    for k in range(classes):
        has = targets[:, k].long()
        share = (float(has.sum()) + 0.5) / (len(has) + 1)
        joined.head.weight[k], joined.head.bias[k] = 0.0, math.log(share / (1 - share))
        if bool((has == has[0]).all()):
            continue  # Nothing tells those that have it from those that do not.
        one = fit_probe(inputs, has, 2, seed=seed)
        weight = (one.head.weight[1] - one.head.weight[0]) / one.scale
        joined.head.weight[k] = weight
        joined.head.bias[k] = one.head.bias[1] - one.head.bias[0] - weight @ one.mean
    return joined.eval()


def _begin_from_probes(
    model: nn.Module,
    squares: Tensor,
    targets: Tensor,
    scale: tuple[tuple[float, ...], tuple[float, ...]],
    seed: int,
) -> None:
    """Give a net's last layer the weights of a probe for each class.

    ``fit`` does so for samples of one class each.

    Args:
        model: On its device.
        squares: Pixels uint8 [N, 3, S, S].
        targets: Whether each sample has each class [N, K].
        scale: Mean and std of each channel.
        seed: Of the folds.
    """
    few = normalise(squares[:2], *scale).to(next(model.parameters()).device)
    head = model.get_submodule(find_penultimate(model, few))
    if isinstance(head, nn.Linear) and head.bias is not None:
        rows = _see(model.eval(), squares, scale)
        put_into(head, _fit_several(rows, targets, head.out_features, seed=seed))


@torch.no_grad()
def see_features(squares: Tensor, settings: Settings, classes: int) -> npt.NDArray[np.float64]:
    """Return what the model to begin from makes of pixels, before any training [N, D].

    Args:
        squares: Pixels uint8 [N, 3, S, S].
        settings: Say the model and its weights.
        classes: The number of classes; its head does not matter here.
    """
    device = choose_device(settings.device)
    model = make_model(settings, max(2, classes), settings.seed).to(device).eval()
    if not len(squares):
        return np.zeros((0, 1))
    rows = _see(model, squares, _statistics(squares, settings))
    features: npt.NDArray[np.float64] = rows.double().numpy()
    return features


@torch.no_grad()
def _see(
    model: nn.Module, squares: Tensor, scale: tuple[tuple[float, ...], tuple[float, ...]]
) -> Tensor:
    """Return the inputs of the last layer of a model in eval mode [N, D], on the CPU."""
    device = next(model.parameters()).device
    parts: list[Tensor] = []
    head = None
    for part in torch.split(squares, _BATCH):
        inputs = normalise(part, *scale).to(device)
        head = head or find_penultimate(model, inputs)
        parts.append(extract_features(model, inputs, penultimate=head).penultimate.cpu())
    return torch.cat(parts)


def make_model(settings: Settings, classes: int, seed: int) -> nn.Module:
    """Return the model that training begins from.

    Raises:
        InputError: If there is no such model, or its weights do not fit.
        ModelError: If it has lazy layers.
    """
    model = build(settings.model, classes, 3, seed, settings.model_options)
    check_made(model)
    if settings.weights is None:
        return model
    path = expand_home(settings.weights)
    if settings.layers is not None:
        load_weights(model, path, layers=settings.layers)
        return model
    try:
        load_weights(model, path)
    except InputError as whole:
        # The file's head may be for other classes, and its features as good.
        try:
            load_weights(model, path, layers="backbone")
        except InputError:
            raise whole from None
    return model


def choose_recipe(samples: int, settings: Settings) -> Recipe:
    """Return the training settings for a number of samples: few get many epochs."""
    tuning = settings.weights is not None
    epochs, size = _suit_tuning(samples) if tuning else _suit_scratch(samples)
    # Of several classes for each sample, ``learn`` sets the head by itself.
    method: Method = "scratch"
    if settings.way == "fine-tune" and not settings.multi_label:
        method = "fine-tune"
    lr = _TUNING_LR if tuning else _SCRATCH_LRS.get(settings.model, _SCRATCH_LR)
    return Recipe(
        epochs=settings.epochs or epochs,
        batch_size=size,
        optimizer="adam",
        lr=settings.lr or lr,
        weight_decay=1e-4,
        schedule="cosine",
        augmentation=settings.augmentation,
        method=method,
    )


def _suit_tuning(samples: int) -> tuple[int, int]:
    """Return epochs and batch size for a model that begins from a file of weights."""
    size = max(2, min(_BATCH, samples))
    suited = math.ceil(_TUNING_STEPS / math.ceil(samples / size))
    return min(_MOST_TUNING_EPOCHS, max(_LEAST_EPOCHS, suited)), size


def _suit_scratch(samples: int) -> tuple[int, int]:
    """Return epochs and batch size for a model that begins from the seed."""
    # Of equal size: a last batch of a few would unsettle the averages that BatchNorm keeps.
    size = max(2, math.ceil(samples / max(1, round(samples / _SCRATCH_BATCH))))
    suited = math.ceil(_SCRATCH_VIEWS / samples)
    return min(_MOST_EPOCHS, max(_LEAST_EPOCHS, suited)), size


def _statistics(squares: Tensor, settings: Settings) -> tuple[tuple[float, ...], tuple[float, ...]]:
    if settings.mean is not None and settings.std is not None:
        return settings.mean, settings.std
    if settings.weights is not None:
        return IMAGENET_MEAN, IMAGENET_STD
    first = torch.zeros(3, dtype=torch.float64)
    second = torch.zeros(3, dtype=torch.float64)
    for part in torch.split(squares, 64):
        values = part.double() / 255.0
        first += values.sum(dim=(0, 2, 3))
        second += values.square().sum(dim=(0, 2, 3))
    count = squares[:, 0].numel()
    mean = first / count
    std = (second / count - mean.square()).clamp(min=0.0).sqrt().clamp(min=1e-2)
    return tuple(mean.tolist()), tuple(std.tolist())
