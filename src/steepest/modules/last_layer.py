"""Gradient norms over the last layer alone: a forward pass and a closed form.

For a linear layer z = W h + b the gradient of a sample's loss is ∂L/∂z hᵀ for W and ∂L/∂z for b, so
that its norm needs no backward pass through the model. It ranks samples differently from the norm
over all parameters.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from steepest.errors import ModelError
from steepest.modules import batches
from steepest.modules.batches import Inputs
from steepest.modules.losses import RowLosses


def last_layer_squares(
    model: nn.Module, inputs: Inputs, losses: RowLosses
) -> tuple[Any, list[Tensor]]:
    """Measure one batch over the linear layer that the logits come from.

    Args:
        model: Any module in eval mode whose logits [N, C] are the output of an ``nn.Linear``.
        inputs: N samples.
        losses: Maps outputs for some rows of the batch to losses, each [N].

    Returns:
        The model's outputs, and for each loss the squared norms [N, P] in double precision, one
        column for each trainable parameter of the layer.

    Raises:
        ModelError: If the logits do not come straight from a linear layer.
    """
    try:
        outputs, layer, features = last_layer_inputs(model, inputs)
    except ModelError as error:
        raise ModelError(f"{error}: use layers='all'") from error
    logits = batches.logits_of(outputs)
    factors = _factors(layer, features.double())
    with torch.inference_mode(mode=False), torch.enable_grad():
        leaf = logits.detach().clone().double().requires_grad_()
        values = losses(leaf, slice(0, len(leaf)))
        slopes = [torch.autograd.grad(v.sum(), leaf, retain_graph=True)[0] for v in values]
    return outputs, [slope.square().sum(1, keepdim=True) * factors for slope in slopes]


def last_layer_inputs(model: nn.Module, inputs: Inputs) -> tuple[Any, nn.Linear, Tensor]:
    """Run one batch; returns the model's outputs, its last layer and that layer's inputs [N, D].

    Raises:
        ModelError: If the logits do not come straight from a linear layer.
    """
    seen: list[tuple[nn.Linear, Tensor, Tensor]] = []

    def note(layer: nn.Module, args: tuple[Any, ...], output: Tensor) -> None:
        if isinstance(layer, nn.Linear):
            seen.append((layer, args[0].detach(), output))

    handles = [
        layer.register_forward_hook(note)
        for layer in model.modules()
        if isinstance(layer, nn.Linear)
    ]
    try:
        with torch.no_grad():
            outputs = batches.call(model, inputs)
    finally:
        for handle in handles:
            handle.remove()
    logits = batches.logits_of(outputs)
    found = [(layer, h) for layer, h, z in seen if z is logits and z.ndim == 2]
    if not found:
        raise ModelError("the logits do not come straight from an nn.Linear on [N, D]")
    return outputs, *found[-1]


def _factors(layer: nn.Linear, features: Tensor) -> Tensor:
    """Return the factor of the squared slope of the logits, per parameter [N, P]."""
    squares = features.square().sum(1)
    columns = {"weight": squares, "bias": torch.ones_like(squares)}
    names = [name for name, p in layer.named_parameters(recurse=False) if p.requires_grad]
    if not names:
        raise ModelError("the last layer has no trainable parameter: use layers='all'")
    return torch.stack([columns[name] for name in names], dim=1)
