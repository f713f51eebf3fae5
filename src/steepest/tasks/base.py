"""Base class of tasks: training loss, label-free losses, predictions and metrics."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import is_dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional

from steepest.core.own_code import import_own_class
from steepest.core.registry import Registry
from steepest.errors import InputError
from steepest.modules import losses
from steepest.pool.values import Label

Metric = float | list[float | None]
"""One number, or one for each class with ``None`` where the class does not occur."""

Batches = Iterable[tuple[Tensor, Tensor]]
"""Logits and targets of some samples at a time."""


class Losses:
    """Cross-entropy, and what can be said without labels: one distribution at each position.

    A model gives N samples C logits each, or C logits at each of a sample's positions: the pixels
    of an image, the labels that it may or may not have. A sample's loss is the mean over its
    positions, whatever their number.

    Attributes:
        ignored: The target where no class is known; None if every position has one.
    """

    ignored: ClassVar[int | None] = None

    def distributions(self, logits: Tensor) -> Tensor:
        """Return logits whose softmax over dimension 1 are the predictions [N, C, ...]."""
        return logits

    def pointwise_loss(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Return the loss of each position [N, ...].

        Args:
            logits: Of distributions [N, C, ...].
            targets: Class indices [N, ...].
        """
        return losses.pointwise_cross_entropy(logits, targets)

    def training_loss(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Return each sample's loss [N]; the trainer takes the mean."""
        pointwise = self.pointwise_loss(self.distributions(logits), targets)
        return pointwise.flatten(1).mean(1) if pointwise.ndim > 1 else pointwise

    def entropy(self, logits: Tensor) -> Tensor:
        """Return the mean entropy of each sample's predictions [N]."""
        return losses.entropy(self.distributions(logits))

    def expected_loss(self, logits: Tensor) -> Tensor:
        """Return the training loss in expectation over the predictions [N].

        Where positions are labelled apart from each other, the expectation over all label maps is
        the mean of the positions' expectations.
        """
        shares = self.distributions(logits)
        if shares.ndim == 2:
            return losses.expected(shares, self.loss_given(logits))
        return losses.expected(shares, self.pointwise_loss)

    def loss_given(self, logits: Tensor) -> losses.TrainingLoss:
        """Return the training loss of these logits, as a function of the targets alone.

        The function takes the logits of the distributions too, and has no use for them.
        """
        exact = logits.double()
        return lambda _shares, targets: self.training_loss(exact, targets)


class Task(Losses, ABC):
    """A learning task: its losses, predictions and metrics.

    Attributes:
        name: The name it is found by.
        headline: The metric that comparisons are about; higher is better.
        per_class: The metric that holds one number for each class.
        other_metrics: Further metrics that may be compared instead of the headline: one number
            each, and higher is better.
        classes: The number of classes.
    """

    name: ClassVar[str]
    headline: ClassVar[str] = "accuracy"
    per_class: ClassVar[str] = "per_class_accuracy"
    other_metrics: ClassVar[tuple[str, ...]] = ()
    classes: int

    @abstractmethod
    def predictions(self, logits: Tensor) -> Tensor:
        """Return the model's losses, without a reduction over samples."""

    @abstractmethod
    def metrics(self, batches: Batches) -> dict[str, Metric]:
        """Return how good the predictions of all batches together are, by metric.

        Raises:
            InputError: If there is no sample, or logits and targets do not match.
        """

    @abstractmethod
    def targets(self, labels: Sequence[Label]) -> Tensor:
        """Return a pool's labels as what ``training_loss`` takes [N, ...].

        Raises:
            InputError: If a label is none of this task's.
        """


def _import_task(name: str) -> type[Task]:
    """Import a task of the user's own.

    Raises:
        InputError: If there is no such class, or it is not a complete task.
    """
    base: type[Task] = Task  # type: ignore[type-abstract]
    found = import_own_class("task", name, base, "steepest.tasks.Task")
    if not is_dataclass(found):
        raise InputError(
            f"task {name!r} is not a dataclass: decorate it with @dataclass(frozen=True)"
        )
    return found


TASKS: Registry[type[Task]] = Registry("task", "steepest.tasks", _import_task)
"""Task classes by name, and by ``package.module:Class``."""


def check_options(
    classes: int, label_smoothing: float, class_weights: tuple[float, ...] | None
) -> None:
    """Refuse options out of range.

    Raises:
        InputError: For the first of them.
    """
    if classes < 2:
        raise InputError(
            f"classes is {classes}; a task needs at least 2: yes or no are two, with a logit each"
        )
    if not 0 <= label_smoothing < 1:
        raise InputError(f"label_smoothing is {label_smoothing}; give 0 up to below 1")
    if class_weights is None:
        return
    if len(class_weights) != classes:
        raise InputError(f"{len(class_weights)} class_weights for {classes} classes: one for each")
    if not all(math.isfinite(w) and w >= 0 for w in class_weights) or not any(class_weights):
        raise InputError("class_weights must be finite, 0 or above, and not all 0")


def weighted_cross_entropy(
    logits: Tensor,
    targets: Tensor,
    label_smoothing: float,
    class_weights: tuple[float, ...] | None,
    ignore_index: int = -100,
) -> Tensor:
    """Return the cross-entropy at each position [N, ...], 0 where the target is ignored."""
    loss = functional.cross_entropy(
        logits,
        targets,
        reduction="none",
        label_smoothing=label_smoothing,
        ignore_index=ignore_index,
    )
    if class_weights is None:
        return loss
    # What is ignored has no weight to look up; its loss is 0 already.
    known = torch.where(targets == ignore_index, 0, targets)
    return loss * loss.new_tensor(class_weights)[known]
