"""The targets of labelled samples: whether the model has such classes, and how many of each."""

from __future__ import annotations

import torch
from torch import Tensor

from steepest.errors import InputError
from steepest.modules.batches import call, logits_of
from steepest.strategies.view import PoolView


def check_targets(labelled: PoolView, strategy: str) -> None:
    """Raise on a target that is not one of the model's classes.

    Torch's own error names no sample, and on a GPU nothing can be computed after it. Targets that
    are no whole numbers, one at each position, are left to the task.

    Args:
        labelled: Samples that all have a target.
        strategy: Its name, for the message.

    Raises:
        InputError: Naming the first such sample and its class.
    """
    if not len(labelled):
        return
    with torch.no_grad():
        logits = logits_of(call(labelled.model, labelled.load([0])))
        classes, *positions = labelled.task.distributions(logits).shape[1:]
    for sample in labelled.ids:
        target = labelled.support.targets_of([sample])[0]
        if target.is_floating_point() or list(target.shape) != positions:
            continue
        wrong = _none_of(target.long(), classes, labelled.task.ignored)
        if len(wrong):
            raise InputError(
                f"{strategy}: the target of sample {sample!r} says class {int(wrong[0])}, but "
                f"the classes are 0 to {classes - 1}{_or_ignored(labelled.task.ignored)}: correct "
                "that label, or leave it out of --labelled or Support.targets"
            )


def class_shares(target: Tensor, classes: int, ignored: int | None) -> Tensor:
    """Return which share of a map's positions each class has [C]; zeros if none is known."""
    known = target.long().flatten()
    if ignored is not None:
        known = known[known != ignored]
    counts = torch.bincount(known, minlength=classes).double()
    return counts / max(1, len(known))


def _none_of(target: Tensor, classes: int, ignored: int | None) -> Tensor:
    """Return the numbers of a target that stand for nothing."""
    wrong = (target < 0) | (target >= classes)
    return target[wrong if ignored is None else wrong & (target != ignored)]


def _or_ignored(ignored: int | None) -> str:
    return "" if ignored is None else f", and {ignored} where none is known"
