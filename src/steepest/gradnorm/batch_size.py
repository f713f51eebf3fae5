"""The number of samples that fit into memory at once."""

from __future__ import annotations

import torch
from torch import Tensor

from steepest.core.memory import free_bytes
from steepest.gradnorm.engine import Engine
from steepest.modules import batches
from steepest.modules.batches import Inputs

_SHARE = 0.4
"""How much of the free memory a batch may take; estimates are not exact."""

_ROOM = 2.0
"""What a batch takes at its peak, over the activations that a forward pass keeps."""

_MOST = {"cpu": 64, "cuda": 1024}
"""Beyond this a larger batch is not faster."""


def samples_that_fit(engine: Engine, inputs: Inputs) -> int:
    """Estimate how many samples fit, from what one of them needs.

    Args:
        engine: Will measure them.
        inputs: Samples like those to come; only the first is looked at.

    Returns:
        At least 1; may be more than were given.
    """
    needed = _ROOM * bytes_kept(engine, batches.take(inputs, slice(0, 1)))
    fit = int(_SHARE * free_bytes(engine.device) / max(1.0, needed))
    return max(1, min(fit, _MOST.get(engine.device.type, 64)))


def bytes_kept(engine: Engine, inputs: Inputs) -> int:
    """Return how many bytes a forward pass keeps for its backward pass."""
    kept: dict[int, int] = {}
    inputs = batches.cloned(inputs)  # A model may write into what it is given.
    known = [*engine.model.parameters(), *engine.model.buffers(), *batches.tensors_of(inputs)]
    given = {tensor.untyped_storage().data_ptr() for tensor in known}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in given:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        engine.forward(inputs, copied=False)
    return sum(kept.values())
