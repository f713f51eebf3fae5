"""One class for each sample: an image, or a volume."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional

from steepest.errors import InputError
from steepest.pool.values import Label
from steepest.tasks.base import TASKS, Batches, Metric, Task, check_options, weighted_cross_entropy


@TASKS.register("classification")
@dataclass(frozen=True)
class Classification(Task):
    """Cross-entropy over classes.

    Attributes:
        classes: The number of classes.
        label_smoothing: The share of each target that is spread evenly over all classes.
        class_weights: The factor of each sample's loss, by its class [C].

    Raises:
        InputError: If an option is out of range.
    """

    name: ClassVar[str] = "classification"
    other_metrics: ClassVar[tuple[str, ...]] = ("balanced_accuracy",)

    classes: int
    label_smoothing: float = 0.0
    class_weights: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        check_options(self.classes, self.label_smoothing, self.class_weights)

    def pointwise_loss(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Return each sample's cross-entropy [N], smoothed and weighted as asked for."""
        return weighted_cross_entropy(logits, targets, self.label_smoothing, self.class_weights)

    def predictions(self, logits: Tensor) -> Tensor:
        """Return the most likely class of each sample [N]."""
        return logits.argmax(dim=1)

    def metrics(self, batches: Batches) -> dict[str, Metric]:
        """Return accuracy, balanced accuracy, mean cross-entropy and the accuracy by class.

        Balanced accuracy is the mean of the accuracies within the classes that occur, so that a
        rare class counts as much as a frequent one.

        Args:
            batches: Logits [B, C] and class indices [B].

        Raises:
            InputError: If there is no sample, shapes do not match or a target is not a class.
        """
        total = torch.zeros(self.classes, dtype=torch.float64)
        right = torch.zeros(self.classes, dtype=torch.float64)
        loss = 0.0
        for logits, targets in batches:
            self._check(logits, targets)
            correct = (self.predictions(logits) == targets).double()
            total += torch.bincount(targets, minlength=self.classes).cpu()
            right += torch.bincount(targets, weights=correct, minlength=self.classes).cpu()
            loss += functional.cross_entropy(logits.double(), targets, reduction="sum").item()
        count = total.sum().item()
        if not count:
            raise InputError("there are no samples to measure the predictions on: give one or more")
        pairs = zip(right.tolist(), total.tolist(), strict=True)
        shares = [r / t if t else None for r, t in pairs]
        return {
            "accuracy": right.sum().item() / count,
            "balanced_accuracy": mean_of_classes(shares),
            "loss": loss / count,
            "per_class_accuracy": list(shares),
        }

    def targets(self, labels: Sequence[Label]) -> Tensor:
        """Return class indices [N]."""
        for label in labels:
            if not isinstance(label, int) or not 0 <= label < self.classes:
                raise InputError(
                    f"label {label!r} is not a class of 0..{self.classes - 1}: give its number"
                )
        return torch.tensor(labels, dtype=torch.long)

    def _check(self, logits: Tensor, targets: Tensor) -> None:
        if logits.dim() != 2 or logits.shape[1] != self.classes:
            raise InputError(
                f"logits are {list(logits.shape)}, not [N, {self.classes}]: give the model an "
                "output for each class"
            )
        if targets.shape != logits.shape[:1]:
            raise InputError(
                f"targets are {list(targets.shape)} for {len(logits)} logits: give a class for each"
            )
        if not bool(((targets >= 0) & (targets < self.classes)).all()):
            raise InputError(
                f"a target is outside 0..{self.classes - 1}: number the classes from 0 on"
            )


def mean_of_classes(values: Sequence[float | None]) -> float:
    """Return the mean over the classes that occur; None stands for one that does not.

    Raises:
        InputError: If none does.
    """
    known = [value for value in values if value is not None]
    if not known:
        raise InputError("no class occurs: there is nothing to take a mean of")
    return sum(known) / len(known)
