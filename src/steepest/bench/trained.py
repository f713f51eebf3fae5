"""A model as a cycle of an experiment leaves it, and the pool that it would choose from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from steepest.core.progress import Progress
from steepest.core.seeds import derive, random_subset
from steepest.data import ImageSet
from steepest.data.alterations import take
from steepest.errors import InputError
from steepest.experiment.config import Config
from steepest.experiment.parts import fresh_model, make_task
from steepest.experiment.protocol import initial_ids
from steepest.tasks.base import Metric
from steepest.training import evaluate, fit
from steepest.training.augment import normalise


@dataclass(frozen=True, eq=False)
class Trained:
    """A trained model and what it has not seen.

    Attributes:
        model: In eval mode, on the device.
        metrics: How good it is on the test images.
        ids: Ids of the pool [N].
        pool: The pool's samples as the model takes them, on the CPU [N, C, H, W].
    """

    model: nn.Module
    metrics: dict[str, Metric]
    ids: Sequence[int]
    pool: Tensor


def train_and_draw(
    config: Config, data: ImageSet, pool: int, device: torch.device, progress: Progress
) -> Trained:
    """Train as the first cycle of an experiment does, and draw a pool from the rest.

    Args:
        config: Says the model, the labels (``loop.initial``), the recipe and the seed.
        data: The data set.
        pool: How many unlabelled samples at most.
        device: Where to train.
        progress: Updated after each epoch.

    Raises:
        InputError: If no sample would be left unlabelled.
    """
    ids, labels = data.ids, config.loop.initial
    if labels >= len(ids):
        raise InputError(
            f"--labels {labels}: {data.name} has {len(ids)} samples; leave some for the pool"
        )
    labelled = [int(i) for i in initial_ids(ids, labels, config.seed)]
    model = fresh_model(config.model, data, config.seed)
    task = make_task(config, data)
    known = data.train_labels.unseal_rows(labelled, "training on the initial set")
    fit(
        model,
        task,
        take(data.train_images, labelled),
        known,
        config.training,
        mean=data.mean,
        std=data.std,
        augmentation=data.augmentation,
        seed=derive(config.seed, "training", 0),
        device=device,
        progress=progress,
    )
    test, truth = data.test_images, data.test_labels
    metrics = evaluate(model, task, test, truth, mean=data.mean, std=data.std, device=device)
    seen = set(labelled)
    rest = [i for i in ids if i not in seen]
    drawn = [rest[i] for i in random_subset(rest, pool, config.seed)]
    samples = normalise(data.train_images[drawn], data.mean, data.std)
    return Trained(model, metrics, drawn, samples)
