"""Weights without values: of lazy layers before they have seen a sample, or on ``meta``."""

from __future__ import annotations

from itertools import chain

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from steepest.core.seeds import seeded
from steepest.errors import ModelError
from steepest.modules.batches import Inputs, call


def find_lazy(model: nn.Module) -> str | None:
    """Return the name of the first weight that is not made yet; None if all are."""
    named = chain(model.named_parameters(), model.named_buffers())
    return next((name for name, value in named if is_lazy(value)), None)


def check_made(model: nn.Module) -> None:
    """Refuse a model some of whose weights have no values.

    Raises:
        ModelError: Naming the first.
    """
    if name := find_lazy(model):
        raise ModelError(
            f"{name} of {type(model).__name__} has no values yet, being of a lazy layer: run the "
            "model once on a sample where it is made, as model(torch.zeros(1, 3, 32, 32))"
        )
    named = chain(model.named_parameters(), model.named_buffers())
    if name := next((name for name, value in named if value.is_meta), None):
        raise ModelError(
            f"{name} of {type(model).__name__} has no values, being on the device 'meta': load the "
            "weights, as by load_state_dict(torch.load(…), assign=True)"
        )


@torch.no_grad()
def make_lazy(model: nn.Module, inputs: Inputs, seed: int) -> None:
    """Make the weights of lazy layers by a look at samples; other weights stay as they are.

    Args:
        model: Changed in place.
        inputs: One sample or more, on the CPU.
        seed: Decides the weights.
    """
    modes = {module: module.training for module in model.modules()}
    model.eval()  # No dropout, and statistics of normalisation stay as they are.
    try:
        with seeded(seed, "lazy weights"):
            call(model, inputs)
    finally:
        for module, training in modes.items():
            module.training = training
