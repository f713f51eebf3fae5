"""Any number of classes for each sample."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional

from steepest.errors import InputError
from steepest.pool.values import Label
from steepest.tasks.base import TASKS, Batches, Metric, Task
from steepest.tasks.segmentation import IGNORED


@TASKS.register("multi-label")
@dataclass(frozen=True)
class MultiLabel(Task):
    """Binary cross-entropy: each class is there or not, whatever the others are.

    A logit z of a class stands for the two logits (0, z) of *absent* and *present*, whose softmax
    has the sigmoid of z. With the classes as positions, all that is said of distributions holds.
    Targets may be partly known: 0, 1 and 255 for a class of which nobody knows whether it is
    there, as uint8 or wider. It counts nowhere.

    Attributes:
        classes: The number of classes.

    Raises:
        InputError: If there is no class.
    """

    name: ClassVar[str] = "multi-label"
    headline: ClassVar[str] = "mean_average_precision"
    per_class: ClassVar[str] = "per_class_average_precision"
    other_metrics: ClassVar[tuple[str, ...]] = ("micro_f1", "exact_match")
    ignored: ClassVar[int | None] = IGNORED

    classes: int

    def __post_init__(self) -> None:
        if self.classes < 1:
            raise InputError(f"classes is {self.classes}; a task needs at least 1")

    def distributions(self, logits: Tensor) -> Tensor:
        """Return logits of absent and present [N, 2, K] for logits of presence [N, K]."""
        return torch.stack([torch.zeros_like(logits), logits], dim=1)

    def training_loss(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Return each sample's mean binary cross-entropy [N] over what is known of [N, K]."""
        known = None if targets.dtype == torch.bool else targets != IGNORED
        truth = targets if known is None else targets * known
        pointwise = functional.binary_cross_entropy_with_logits(
            logits, truth.to(logits.dtype), reduction="none"
        )
        if known is None:
            return pointwise.mean(1)
        return (pointwise * known).sum(1) / known.sum(1).clamp_min(1)

    def predictions(self, logits: Tensor) -> Tensor:
        """Return which classes are more likely there than not [N, K]."""
        return logits > 0

    def metrics(self, batches: Batches) -> dict[str, Metric]:
        """Return mean average precision, micro F1, exact matches, loss, and precision by class.

        Args:
            batches: Logits [B, K] and targets [B, K].

        Raises:
            InputError: If there is no sample, shapes do not match or a target is none.
        """
        parts = [(logits.double().cpu(), targets.cpu()) for logits, targets in batches]
        if not parts:
            raise InputError("there are no samples to measure the predictions on: give one or more")
        logits, targets = (torch.cat(part) for part in zip(*parts, strict=True))
        if logits.shape != targets.shape or logits.shape[1] != self.classes:
            raise InputError(
                f"logits {list(logits.shape)} do not match {list(targets.shape)}: both are "
                f"[N, {self.classes}]"
            )
        known, truth = targets != IGNORED, targets == 1
        if not bool((truth | (targets == 0) | ~known).all()):
            raise InputError("a target is not 0, 1 or 255 (unknown)")
        said = self.predictions(logits) & known
        hits = int((said & truth).sum())
        claims = int(said.sum()) + int(truth.sum())
        precisions = [
            _average_precision(logits[here, k], truth[here, k])
            for k, here in enumerate(known.unbind(1))
        ]
        present = [p for p in precisions if p is not None]
        if not present:
            raise InputError("no sample has any class to measure precision on: test on others")
        rows = known.any(1)
        return {
            "mean_average_precision": sum(present) / len(present),
            "micro_f1": 2 * hits / claims,
            "exact_match": (said == truth).all(1)[rows].double().mean().item(),
            "loss": self.training_loss(logits, targets)[rows].mean().item(),
            "per_class_average_precision": list(precisions),
        }

    def targets(self, labels: Sequence[Label]) -> Tensor:
        """Return which classes each sample has [N, K]; a label lists them."""
        rows = torch.zeros(len(labels), self.classes, dtype=torch.bool)
        for row, label in enumerate(labels):
            listed = label if isinstance(label, list) else None
            if listed is None or not all(0 <= c < self.classes for c in listed):
                raise InputError(
                    f"label {label!r} is not a list of classes of 0..{self.classes - 1}"
                )
            rows[row, listed] = True
        return rows


def _average_precision(scores: Tensor, truth: Tensor) -> float | None:
    """Return the mean precision at each positive [N], equal scores taken together."""
    positives = int(truth.sum())
    if not positives:
        return None
    order = scores.argsort(descending=True, stable=True)
    ranked, hits = scores[order], truth[order].double()
    # The last place of each run of equal scores: a threshold cannot fall inside one.
    last = torch.cat([ranked[1:] != ranked[:-1], torch.tensor([True])])
    found = hits.cumsum(0)[last]
    places = torch.arange(1, len(hits) + 1, dtype=torch.float64)[last]
    steps = torch.diff(found, prepend=torch.zeros(1, dtype=torch.float64))
    return float((steps * found / places).sum() / positives)
