"""What a task is: a loss to train by, predictions, and metrics."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from torch import Tensor

from steepest.registry import Registry

Metric = float | list[float | None]
"""One number, or one for each class with ``None`` where the class does not occur."""


class Task(ABC):
    """What is learnt from the labels.

    Attributes:
        name: The name it is found by.
    """

    name: ClassVar[str]

    @abstractmethod
    def training_loss(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Return each sample's loss [N]; the trainer takes the mean."""

    @abstractmethod
    def predictions(self, logits: Tensor) -> Tensor:
        """Return what the model says, without a reduction over samples."""

    @abstractmethod
    def metrics(self, logits: Tensor, targets: Tensor) -> dict[str, Metric]:
        """Return how good the predictions are, by metric."""


TASKS: Registry[type[Task]] = Registry("task", "steepest.tasks")
"""Task classes by name."""
