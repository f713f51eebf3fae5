"""Parameters spread over the data, as position embeddings and layer scales are."""

from __future__ import annotations

import torch
from torch import Tensor

from steepest.gradnorm.measure.shares import Dense, Share
from steepest.gradnorm.rules.base import Call, rule

_T = torch.Tensor
_POSITIONAL = ("condition", "input", "other")


@rule(
    torch.add, _T.add, _T.add_, torch.sub, _T.sub, _T.sub_, torch.rsub, _T.__rsub__,
    torch.mul, _T.mul, torch.div, _T.div, _T.__rtruediv__, torch.true_divide, _T.true_divide,
    torch.maximum, _T.maximum, torch.minimum, _T.minimum, torch.pow, _T.pow, _T.__pow__,
    arguments="input other",
)  # fmt: skip
def elementwise(call: Call, g: Tensor) -> dict[str, Share]:
    """Element by element: what the spread-out parameter would get, summed over where it went."""
    return {name: _spread(call, name, g) for name in call.wanted}


@rule(torch.where, arguments="condition input other")
def choice(call: Call, g: Tensor) -> dict[str, Share]:
    """Choice element by element, as for mask tokens."""
    return {name: _spread(call, name, g) for name in call.wanted}


_SUMS = {_T.add_: 1, _T.sub_: -1}


def _spread(call: Call, name: str, g: Tensor) -> Share:
    """Take the derivative with respect to the parameter spread out to the output's shape."""
    shape: torch.Size = call[name].shape
    if call.function in _SUMS:
        if name != "other":
            raise NotImplementedError
        return _summed(shape, _SUMS[call.function] * call.get("alpha", 1) * g)
    with torch.enable_grad():
        full = call[name].detach().expand(g.shape).requires_grad_()
        arguments = {key: _aligned(call, key, g.ndim) for key in call.arguments} | {name: full}
        keywords = {k: v for k, v in arguments.items() if k not in _POSITIONAL}
        values = [arguments[k] for k in _POSITIONAL if k in arguments]
        output = call.function(*values, **keywords)
    (gradient,) = torch.autograd.grad(output, full, g.to(output.dtype))
    return _summed(shape, gradient)


def _aligned(call: Call, name: str, dims: int) -> object:
    """Return an argument such that its last dimensions are those of the output [N, ...]."""
    value = call[name]
    if not isinstance(value, Tensor):
        return value
    value = value.detach()
    if name not in call.batched:
        return value
    return value.reshape(len(value), *[1] * (dims - value.ndim), *value.shape[1:])


def _summed(shape: torch.Size, gradient: Tensor) -> Share:
    """Sum a gradient [N, ...] over where a parameter of some shape was spread."""
    if len(shape) >= gradient.ndim:
        raise NotImplementedError
    padded = [1] * (gradient.ndim - 1 - len(shape)) + list(shape)
    over = [d for d, size in enumerate(padded, 1) if size == 1 and gradient.shape[d] != 1]
    summed = gradient.sum(over) if over else gradient
    return Dense(summed.reshape(len(gradient), *shape))
