"""Default batch sizes.

A net for images keeps a CPU busy with 64 of them. One for rows of features does next to nothing for
64 rows, and the overhead of each call is most of the time: a million rows take five times as long
as in batches of thousands.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from steepest.errors import SteepestError
from steepest.modules import batches
from steepest.modules.preserve import evaluating, plain_attention, removing
from steepest.strategies import Needs
from steepest.strategies.view import Lens, Loadable

MANY = 10_000
"""Fewer samples are looked at in no time, in batches of any size."""

MOST = 4096
"""Larger batches are hardly quicker, whatever the model."""

_NUMBERS = 1 << 20
"""About as many outputs of all layers, for one batch, as stay in the cache of a CPU."""


def usual_batch_size(device: torch.device, needs: Needs) -> int:
    """Return a number of samples that suits nets for images."""
    if device.type == "cuda":
        return 512
    return 64 if Needs.GRADIENTS in needs else 256


def suited_batch_size(lens: Lens, few: Loadable, count: int, needs: Needs) -> int:
    """Return a number of samples that suits a model: more than usual for a small one on a CPU.

    It follows from the model and the shape of a sample alone, so that all shards of a pool have
    the same batches.

    Args:
        lens: The model, and where it computes.
        few: One or two samples, passed to the model if the pool is large.
        count: Number of samples.
        needs: Of the strategy.
    """
    usual = usual_batch_size(lens.device, needs)
    if lens.device.type != "cpu" or count < MANY or needs == Needs.NOTHING:
        return usual
    numbers = _numbers_per_sample(lens, few)
    if numbers is None:
        return usual
    fitting = max(1, _NUMBERS // max(1, numbers))
    return max(usual, min(MOST, 1 << (fitting.bit_length() - 1)))


def _numbers_per_sample(lens: Lens, few: Loadable) -> int | None:
    """Return how many numbers all layers put out for a sample; None if that cannot be seen."""
    # A compiled program would pass over hooks that are added after it was made.
    model: nn.Module = getattr(lens.model, "_orig_mod", lens.model)
    layers = [m for m in model.modules() if next(m.children(), None) is None]
    found: dict[nn.Module, int] = {}

    def note(layer: nn.Module, _inputs: object, outputs: object) -> None:
        tensors = [x for x in pytree.tree_leaves(outputs) if isinstance(x, Tensor)]
        found[layer] = found.get(layer, 0) + sum(x.numel() for x in tensors)

    if not all(map(_is_seen_through, model.modules())):
        return None
    hooks = [layer.register_forward_hook(note) for layer in layers]
    try:
        with removing(hooks), evaluating(model), torch.no_grad(), plain_attention():
            inputs = next(iter(few.batches(range(len(few.ids)), len(few.ids))))
            batches.call(model, batches.move(inputs, lens.device, lens.dtype))
    except SteepestError:
        return None  # The real pass raises the same error.
    if len(found) < len(layers):
        return None  # A layer that is not called may still be at work in another's code.
    read = sum(x.numel() for x in batches.tensors_of(inputs))
    return (read + sum(found.values())) // len(few.ids)


def _is_seen_through(module: nn.Module) -> bool:
    """Return whether the outputs of its layers are about all that a module computes.

    One of somebody's own that has parameters beside its layers computes more.
    """
    plain = type(module).__module__.startswith("torch.nn.modules.")
    return plain or next(module.parameters(recurse=False), None) is None
