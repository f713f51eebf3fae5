"""Handles models with a single logit for yes or no.

The softmax of a single logit is always 1. Two classes take two logits; one of them may be 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from steepest.core.tables import from_table
from steepest.errors import InputError, ModelError, SteepestError
from steepest.modules import batches
from steepest.modules.preserve import evaluating
from steepest.selecting.samples import Samples
from steepest.strategies.batch import CROSS_ENTROPY
from steepest.strategies.view import Loadable
from steepest.tasks.base import TASKS, Losses, Task


@contextmanager
def single_logits_named(model: nn.Module, samples: Loadable, task: Losses) -> Iterator[None]:
    """Say the remedy where a model cannot be used because it has one logit alone.

    The model is looked at again only after it was refused, so that nothing is run twice without
    need.

    Args:
        model: The model; its device is used.
        samples: At least one sample that it takes.
        task: The task that defines the classes of the logits.

    Raises:
        ModelError: In the place of another, with the remedy.
    """
    try:
        yield
    except ModelError as error:
        outputs = _look(model, samples)
        if outputs is None or (outputs.ndim > 1 and outputs.shape[1] > 1):
            raise
        raise ModelError(_say(outputs, task)) from error


def _look(model: nn.Module, samples: Loadable) -> Tensor | None:
    """Return the model's output for one sample, if it is a tensor."""
    weights = next((p for p in model.parameters() if p.is_floating_point()), torch.empty(0))
    try:
        inputs = next(iter(samples.batches([0], 1)))
        with evaluating(model), torch.no_grad():
            outputs: Any = batches.call(model, batches.move(inputs, weights.device, weights.dtype))
    except SteepestError:
        return None
    if isinstance(outputs, Mapping):
        outputs = outputs.get("logits", outputs.get("out"))
    logits = outputs if isinstance(outputs, Tensor) else getattr(outputs, "logits", None)
    return logits if isinstance(logits, Tensor) and logits.ndim else None


def _say(outputs: Tensor, task: Losses) -> str:
    found = f"the model has one logit for each {'pixel' if outputs.ndim > 2 else 'sample'}"
    classes: int = getattr(task, "classes", 2)
    if classes > 2:
        return f"{found}, but the task has {classes} classes: return a logit for each of them"
    pair = "torch.cat" if outputs.ndim > 1 else "torch.stack"
    instead = ", and take classification with 2 classes as the task" if classes < 2 else ""
    return (
        f"{found}, and yes or no take two: for its logit z return "
        f"{pair}([torch.zeros_like(z), z], 1), whose softmax is the sigmoid of z{instead}; a "
        "number to be predicted (regression) has no classes, and is not supported"
    )


def check_labels(samples: Samples, task: Task | str | None) -> None:
    """Ask for the task where labels beside the samples are no classes.

    Raises:
        InputError: If they are real numbers and no task was named.
    """
    if task is None and samples.whole.has_measurements:
        raise InputError(
            "the pool's labels are real numbers and no classes: give task= (--task), such as "
            "'multi-label', or 'classification' if the model's outputs are logits all the same; "
            "regression is not supported"
        )


def losses_of(
    task: Task | str | None,
    model: nn.Module,
    few: Loadable,
    device: torch.device,
    dtype: torch.dtype,
) -> Losses:
    """Return a task's losses; by default cross-entropy.

    Args:
        task: A task, or the name of one.
        model: Shown a few samples, for a task that goes by its name.
        few: At least one sample.
        device: Where the model is.
        dtype: The dtype that it computes in.

    Raises:
        ModelError: If the model has no classes that could be counted.
    """
    if not isinstance(task, str):
        return CROSS_ENTROPY if task is None else task
    with single_logits_named(model, few, CROSS_ENTROPY), evaluating(model), torch.no_grad():
        inputs = next(iter(few.batches(range(len(few.ids)), len(few.ids))))
        outputs = batches.call(model, batches.move(inputs, device, dtype))
        classes = batches.logits_of(outputs).shape[1]
    return from_table(TASKS.get(task), {"classes": classes}, f"task {task!r}")
