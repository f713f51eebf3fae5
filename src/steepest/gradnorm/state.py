"""What a recorded measurement depends on, apart from the batch."""

from __future__ import annotations

from torch import nn

_PLAIN = (int, float, bool, str, type(None))


def state_of(model: nn.Module) -> tuple[object, ...]:
    """Return everything that must stay the same for a recording of a model to hold.

    Weights may change in place, as training does. Other tensors, another mode or other plain
    attributes, such as a temperature, make another model of it.
    """
    tensors = [
        (id(tensor), tensor.data_ptr(), tensor.requires_grad)
        for tensor in (*model.parameters(), *model.buffers())
    ]
    attributes = [
        value
        for module in model.modules()
        for value in vars(module).values()
        if isinstance(value, _PLAIN)
    ]
    return (tuple(tensors), tuple(attributes))
