"""Tasks that are given by name: how many classes there are, the model says."""

from __future__ import annotations

import torch
from torch import nn

from steepest.core.tables import from_table
from steepest.modules import batches
from steepest.modules.preserve import evaluating
from steepest.selecting.single_logit import single_logits_named
from steepest.strategies.batch import CROSS_ENTROPY
from steepest.strategies.view import Loadable
from steepest.tasks.base import TASKS, Losses, Task


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
        dtype: What it computes in.

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
