"""Models beside the present one: looked through as it is, and left unchanged."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn

from steepest.errors import ModelError
from steepest.modules import batches
from steepest.modules.preserve import evaluating
from steepest.strategies.batch import Batch


def placed(model: nn.Module, device: torch.device) -> nn.Module:
    """Return a model where it is wanted: itself, or a copy of one that is elsewhere."""
    found = next(model.parameters(), torch.empty(0)).device
    return model if found == device else copy.deepcopy(model).to(device)


def predict(model: nn.Module, batch: Batch, what: str) -> Tensor:
    """Return another model's logits of a batch [N, C, ...], as distributions of the task.

    Args:
        model: Where the batch is; evaluated whatever its mode.
        batch: The samples, and the present model's logits of them.
        what: Which model it is, in the words of an error.

    Raises:
        ModelError: If its logits are of another shape than the present model's.
    """
    inputs, floats = batch.inputs, (p for p in model.parameters() if p.is_floating_point())
    if (weight := next(floats, None)) is not None:
        # The present model may be a copy in half precision.
        inputs = batches.move(inputs, weight.device, weight.dtype)
    with evaluating(model), torch.no_grad():
        logits = batch.task.distributions(batches.logits_of(batches.call(model, inputs)))
    if logits.shape != batch.logits.shape:
        raise ModelError(
            f"{what} gives logits {list(logits.shape)} where the model gives "
            f"{list(batch.logits.shape)}: give one of the same task"
        )
    return logits
