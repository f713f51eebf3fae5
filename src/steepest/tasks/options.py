"""Options that several tasks share, and checks on what they are given."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional

from steepest.errors import InputError


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
