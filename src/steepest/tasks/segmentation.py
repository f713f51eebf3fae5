"""One class for each pixel of an image, or each voxel of a volume."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NoReturn

import torch
from torch import Tensor

from steepest.errors import InputError
from steepest.pool.values import Label
from steepest.tasks.base import TASKS, Batches, Metric, Task, check_options, weighted_cross_entropy
from steepest.tasks.classification import mean_of_classes

IGNORED = 255
"""Value of pixels without a class in a label map."""


@TASKS.register("segmentation")
@dataclass(frozen=True)
class Segmentation(Task):
    """Cross-entropy at each pixel; pixels without a class count nowhere.

    A sample's training loss is the mean over its labelled pixels, and its label-free losses are
    means over all pixels, since which ones will be labelled is not known: a large image counts
    as much as a small one.

    Attributes:
        classes: The number of classes.
        label_smoothing: The share of each target that is spread evenly over all classes.
        class_weights: The factor of each pixel's loss, by its class [C].

    Raises:
        InputError: If an option is out of range.
    """

    name: ClassVar[str] = "segmentation"
    headline: ClassVar[str] = "miou"
    per_class: ClassVar[str] = "per_class_iou"
    other_metrics: ClassVar[tuple[str, ...]] = ("pixel_accuracy",)
    ignored: ClassVar[int | None] = IGNORED

    classes: int
    label_smoothing: float = 0.0
    class_weights: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        check_options(self.classes, self.label_smoothing, self.class_weights)

    def pointwise_loss(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Return each pixel's cross-entropy [N, ...], 0 where it is ignored."""
        return weighted_cross_entropy(
            logits, targets, self.label_smoothing, self.class_weights, IGNORED
        )

    def training_loss(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Return the mean loss over each sample's labelled pixels [N], 0 without any."""
        targets = targets.long()
        known = (targets != IGNORED).flatten(1).sum(1).clamp_min(1)
        return self.pointwise_loss(logits, targets).flatten(1).sum(1) / known

    def predictions(self, logits: Tensor) -> Tensor:
        """Return the most likely class of each pixel [N, ...]."""
        return logits.argmax(dim=1)

    def metrics(self, batches: Batches) -> dict[str, Metric]:
        """Return mean IoU, pixel accuracy, loss and each class's IoU.

        All come from one confusion matrix over all pixels of all samples: a mean over batches
        would depend on how they are cut.

        Args:
            batches: Logits [B, C, ...] and label maps [B, ...].

        Raises:
            InputError: If no pixel is labelled, shapes do not match or a target is not a class.
        """
        confusion = torch.zeros(self.classes, self.classes, dtype=torch.int64)
        loss = 0.0
        for logits, maps in batches:
            targets = maps.long()
            self._check(logits, targets)
            known = targets != IGNORED
            pairs = targets[known] * self.classes + self.predictions(logits)[known]
            counts = torch.bincount(pairs, minlength=self.classes**2)
            confusion += counts.reshape(self.classes, self.classes).cpu()
            plain = weighted_cross_entropy(logits.float(), targets, 0.0, None, IGNORED)
            loss += plain.double().sum().item()
        return _summarise(confusion, loss)

    def targets(self, labels: Sequence[Label]) -> NoReturn:
        """Refuse: label maps are too large for a pool, which notes only that they are there."""
        raise InputError(f"{len(labels)} labels of a pool are not label maps: read those by id")

    def _check(self, logits: Tensor, targets: Tensor) -> None:
        if logits.dim() < 3 or logits.shape[1] != self.classes:
            raise InputError(
                f"logits are {list(logits.shape)}, not [N, {self.classes}, H, W]: segmentation "
                "needs a model that labels every pixel"
            )
        if targets.shape != (logits.shape[0], *logits.shape[2:]):
            raise InputError(
                f"label maps are {list(targets.shape)} for {list(logits.shape)}: they must be of "
                "one size"
            )
        inside = (targets >= 0) & (targets < self.classes)
        if not bool((inside | (targets == IGNORED)).all()):
            raise InputError(
                f"a pixel's class is outside 0..{self.classes - 1} and not {IGNORED}: number the "
                f"classes from 0 on, and write {IGNORED} where none is known"
            )


def _summarise(confusion: Tensor, loss: float) -> dict[str, Metric]:
    """Return the metrics of a confusion matrix [C, C] of true classes by predicted ones."""
    pixels = int(confusion.sum())
    if not pixels:
        raise InputError("there is no labelled pixel to measure predictions on: test on others")
    right = confusion.diag()
    union = confusion.sum(0) + confusion.sum(1) - right
    shares = zip(right.tolist(), union.tolist(), strict=True)
    ious = [r / u if u else None for r, u in shares]
    return {
        "miou": mean_of_classes(ious),
        "pixel_accuracy": int(right.sum()) / pixels,
        "loss": loss / pixels,
        "per_class_iou": list(ious),
    }
