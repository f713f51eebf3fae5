"""The parts of a run: data set, strategy, task, device, and the models that it trains."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from steepest.core.devices import choose_device
from steepest.core.progress import Progress, SilentProgress
from steepest.core.seeds import SampleId, derive
from steepest.data import Images, ImageSet
from steepest.data.alterations import take
from steepest.data.identity import identify
from steepest.data.sealed import Labels
from steepest.errors import InputError, NonFiniteError
from steepest.experiment.building import check_budget, fresh_model, load_data, make_task
from steepest.experiment.config import Config
from steepest.experiment.environment import CODE, code_of, describe_environment
from steepest.experiment.folder import RunFolder
from steepest.experiment.record import LABELLED_MAPS
from steepest.pool import Pool
from steepest.strategies import Needs, create
from steepest.tasks.base import Metric
from steepest.training import Checkpoint, Extra, FitResult, evaluate, fit


class Setup:
    """A run's configuration with its data set, strategy, task and device, and models for them.

    Args:
        config: The configuration to run.
        data: The data set, if it is loaded already.
        progress: Updated during trainings and scorings.

    Raises:
        ConfigError: If the budget is more than the data set holds.
    """

    def __init__(
        self, config: Config, data: ImageSet | None = None, progress: Progress | None = None
    ) -> None:
        self.config = config
        self.device = choose_device(config.device)
        self.data = load_data(config) if data is None else data
        self.strategy = create(config.strategy.name, config.strategy.options)
        self.task = make_task(config, self.data)
        self.progress = progress or SilentProgress()
        check_budget(config, self.data)
        self._code: dict[str, Any] = {}

    def note_code(self) -> None:
        """Keep digests of the user's code for records, once a model was made of it.

        A module that is not imported yet has none.
        """
        self._code = {CODE: code} if (code := code_of(self.config)) else {}

    def identity(self) -> dict[str, Any]:
        """Return the identity of the data set."""
        return identify(self.data)

    def environment(self) -> dict[str, Any]:
        """Return versions, hardware and digests of the user's code, for a record."""
        return {**describe_environment(self.device), **self._code}

    def fresh_model(self, seed: int) -> nn.Module:
        """Return a model that fits the data and the strategy, with first weights by a seed."""
        return fresh_model(self.config.model, self.data, seed, self.strategy.model_options())

    def starting_model(
        self, folder: RunFolder, cycle: int, previous: nn.Module | None, member: int = 0
    ) -> nn.Module:
        """Return the model that a cycle trains.

        Fresh weights depend on the seed, the cycle and the member alone, so that all strategies
        of a seed begin with the same ones.

        Args:
            folder: Holds the weights of the cycle before, after a restart.
            cycle: The cycle that begins.
            previous: The model of the cycle before, if this process has trained it.
            member: The number of the model in its committee; 0 is the task's own.
        """
        loop = self.config.loop
        seed = derive(self.config.seed, "member", member) if member else self.config.seed
        first = seed if cycle == 0 else derive(seed, "fresh weights", cycle)
        if cycle == 0 or loop.init == "cold":
            return self.fresh_model(first)
        if previous is None:
            previous = self.fresh_model(first)
            folder.load_model(previous, cycle - 1, member)
        if loop.init == "warm":
            return previous
        return _shrink_and_perturb(previous, self.fresh_model(first), loop.shrink, loop.perturb)

    def targets(self, pool: Pool) -> Mapping[SampleId, Any]:
        """Return the targets of labelled samples, if the strategy needs them."""
        if Needs.TARGETS not in self.strategy.needs:
            return {}
        ids, _ = pool.labelled()
        _, targets = self.labelled(pool)
        rows = targets if isinstance(targets, Tensor) else targets[:]
        return dict(zip(ids, rows, strict=True))

    def labelled(self, pool: Pool) -> tuple[Images, Labels]:
        """Return the labelled samples in the order of the pool, with their labels."""
        ids, labels = pool.labelled()
        rows = [int(i) for i in ids]
        images = take(self.data.train_images, rows)
        if self.data.train_labels.dense:
            return images, self.data.train_labels.unseal_rows(rows, LABELLED_MAPS)
        return images, self.task.targets(labels)

    def fit(
        self,
        model: nn.Module,
        pool: Pool,
        checkpoint: Checkpoint,
        purpose: tuple[str | int, ...],
        extra: Extra | None = None,
    ) -> FitResult:
        """Train a model on the labelled samples by the recipe.

        Args:
            model: Trained in place.
            pool: The pool, with the labelled samples.
            checkpoint: Where the state is kept.
            purpose: What this training is for: it decides order, augmentation and dropout.
            extra: The auxiliary model trained along with it.
        """
        return fit(
            model,
            **self.fitting(pool),
            seed=derive(self.config.seed, *purpose),
            progress=self.progress,
            checkpoint=checkpoint,
            extra=extra,
        )

    def fitting(self, pool: Pool) -> dict[str, Any]:
        """Return the arguments of ``fit`` that all models of the experiment share."""
        images, targets = self.labelled(pool)
        return {
            "task": self.task,
            "images": images,
            "labels": targets,
            "recipe": self.config.training,
            "mean": self.data.mean,
            "std": self.data.std,
            "augmentation": self.data.augmentation,
            "device": self.device,
        }

    def metrics(self, model: nn.Module, images: Images, labels: Labels) -> dict[str, Metric]:
        """Return a model's metrics on labelled samples."""
        mean, std = self.data.mean, self.data.std
        return evaluate(model, self.task, images, labels, mean=mean, std=std, device=self.device)

    def train_metrics(self, model: nn.Module, images: Images, labels: Labels) -> dict[str, Metric]:
        """Return the metrics of training; nothing where the labels allow for none."""
        try:
            return self.metrics(model, images, labels)
        except InputError:
            return {}  # Maps without a single class, or samples without any label.


@contextmanager
def divergence_named(lr: float, *, certain: bool) -> Iterator[None]:
    """Say which key to change where what a training made of a model is not finite.

    Args:
        lr: The configuration's ``training.lr``.
        certain: Whether nothing else can be the reason; a sample may be, where a model cannot
            score it though its logits are finite.

    Raises:
        NonFiniteError: In place of another one.
    """
    try:
        yield
    except NonFiniteError as error:
        remedy = f"lower training.lr, which is {lr:g}"
        # After the semicolon is the remedy for those who have no configuration.
        found = str(error).partition(";")[0]
        sure, unsure = f"the training diverged ({found}): ", f"{error}; if the training diverged, "
        raise NonFiniteError((sure if certain else unsure) + remedy) from error


@torch.no_grad()
def _shrink_and_perturb(
    old: nn.Module, fresh: nn.Module, shrink: float, perturb: float
) -> nn.Module:
    """Return shrink · old + perturb · fresh weights, with fresh normalisation statistics."""
    learnt = dict(old.named_parameters())
    for name, parameter in fresh.named_parameters():
        parameter.mul_(perturb).add_(learnt[name].to(parameter.device), alpha=shrink)
    return fresh
