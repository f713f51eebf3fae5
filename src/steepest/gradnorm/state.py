"""What a recorded measurement depends on, apart from the batch."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

_PLAIN = (int, float, bool, str, type(None))
_OWN = frozenset(vars(nn.Module())) - {"training"}
"""What every module has; parameters, buffers and layers are looked at on their own."""


def state_of(model: nn.Module) -> tuple[object, ...]:
    """Return everything that must stay the same for a recording of a model to hold.

    Weights and buffers may change in place, as in training. Other tensors, another mode or other
    attributes, such as a temperature, make another model of it.
    """
    tensors = [
        (id(tensor), tensor.data_ptr(), tensor.requires_grad)
        for tensor in (*model.parameters(), *model.buffers())
    ]
    attributes = [
        _mark(value)
        for module in model.modules()
        for name, value in vars(module).items()
        if name not in _OWN
    ]
    return (tuple(tensors), tuple(attributes))


def _mark(value: Any) -> object:  # noqa: ANN401 - any attribute
    """Return something that differs if an attribute does."""
    if isinstance(value, _PLAIN):
        return value
    if isinstance(value, Tensor):
        return id(value), value._version  # noqa: SLF001 - cheaper than its values
    if isinstance(value, dict):
        return tuple((key, _mark(item)) for key, item in value.items())
    if isinstance(value, list | tuple):
        return tuple(_mark(item) for item in value)
    return id(value)
