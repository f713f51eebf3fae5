"""Selects the parameters that influence is computed over."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Literal

import torch
from torch import Tensor, nn

from steepest.errors import InputError, ModelError
from steepest.influence.vectors import Vector

Layers = Literal["all", "no-vectors"] | Callable[[str, Tensor], bool] | Collection[str]
"""All trainable parameters, all but one-dimensional ones, those named, or those a function keeps.

One-dimensional parameters are biases, and the scales and shifts of normalisation.
"""


def choose_parameters(model: nn.Module, layers: Layers = "all") -> tuple[Vector, tuple[str, ...]]:
    """Return the parameters that take part, by name, and the names of trainable ones that do not.

    The tensors share the model's memory, so that they follow its training.

    Args:
        model: Any module; frozen parameters never take part.
        layers: Which of the others do.

    Raises:
        InputError: If there are none, or a name is not there.
        ModelError: If their precision is too low for differences of gradients.
    """
    trained = {name: p for name, p in model.named_parameters() if p.requires_grad}
    keep = _keeper(layers, trained)
    chosen = {name: p.detach() for name, p in trained.items() if keep(name, p)}
    if not chosen:
        raise InputError("no trainable parameter takes part: set requires_grad, or change 'layers'")
    for name, parameter in chosen.items():
        if parameter.dtype not in (torch.float32, torch.float64):
            raise ModelError(
                f"the parameter {name!r} is {parameter.dtype}, too coarse for curvature: call "
                "model.float() first"
            )
    return chosen, tuple(name for name in trained if name not in chosen)


def _keeper(layers: Layers, trained: dict[str, nn.Parameter]) -> Callable[[str, Tensor], bool]:
    if layers == "all":
        return lambda _name, _parameter: True
    if layers == "no-vectors":
        return lambda _name, parameter: parameter.ndim != 1
    if callable(layers):
        return layers
    if isinstance(layers, str) or not isinstance(layers, Collection):
        raise InputError(
            f"layers is {layers!r}: give 'all', 'no-vectors', names of parameters or a function"
        )
    wanted = set(layers)
    if unknown := sorted(wanted - trained.keys()):
        raise InputError(f"the model trains no parameter {unknown[0]!r}: named_parameters() lists")
    return lambda name, _parameter: name in wanted
