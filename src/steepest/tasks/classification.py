"""One class for each sample."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional

from steepest.errors import InputError
from steepest.tasks.base import TASKS, Metric, Task


@TASKS.register("classification")
@dataclass(frozen=True)
class Classification(Task):
    """Cross-entropy over classes.

    Attributes:
        classes: The number of classes.
        label_smoothing: The share of each target that is spread evenly over all classes.
        class_weights: What each sample's loss is multiplied by, according to its class [C].

    Raises:
        InputError: If an option is out of range.
    """

    name: ClassVar[str] = "classification"

    classes: int
    label_smoothing: float = 0.0
    class_weights: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        if self.classes < 2:
            raise InputError(f"classes is {self.classes}; a classification needs at least 2")
        if not 0 <= self.label_smoothing < 1:
            raise InputError(f"label_smoothing is {self.label_smoothing}; give 0 up to below 1")
        if self.class_weights is None:
            return
        if len(self.class_weights) != self.classes:
            raise InputError(f"{len(self.class_weights)} class_weights for {self.classes} classes")
        usable = all(math.isfinite(w) and w >= 0 for w in self.class_weights)
        if not usable or not any(self.class_weights):
            raise InputError("class_weights must be finite, 0 or above, and not all 0")

    def training_loss(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Return each sample's cross-entropy [N], smoothed and weighted as asked for."""
        loss = functional.cross_entropy(
            logits, targets, reduction="none", label_smoothing=self.label_smoothing
        )
        if self.class_weights is None:
            return loss
        return loss * loss.new_tensor(self.class_weights)[targets]

    def predictions(self, logits: Tensor) -> Tensor:
        """Return the most likely class of each sample [N]."""
        return logits.argmax(dim=1)

    def metrics(self, logits: Tensor, targets: Tensor) -> dict[str, Metric]:
        """Return accuracy, mean cross-entropy and the accuracy within each class.

        Args:
            logits: [N, C].
            targets: Class indices [N].

        Raises:
            InputError: If the shapes do not match or a target is not a class.
        """
        self._check(logits, targets)
        correct = (self.predictions(logits) == targets).double()
        total = torch.bincount(targets, minlength=self.classes).tolist()
        right = torch.bincount(targets, weights=correct, minlength=self.classes).tolist()
        return {
            "accuracy": correct.mean().item(),
            "loss": functional.cross_entropy(logits.double(), targets).item(),
            "per_class_accuracy": [r / t if t else None for r, t in zip(right, total, strict=True)],
        }

    def _check(self, logits: Tensor, targets: Tensor) -> None:
        if logits.dim() != 2 or logits.shape[1] != self.classes or len(logits) == 0:
            raise InputError(f"logits are {list(logits.shape)}, not [N, {self.classes}]")
        if targets.shape != logits.shape[:1]:
            raise InputError(f"targets are {list(targets.shape)} for {len(logits)} logits")
        if not bool(((targets >= 0) & (targets < self.classes)).all()):
            raise InputError(f"a target is outside 0..{self.classes - 1}")
