"""Parameters spread over the data, as class tokens, position embeddings and layer scales are."""

from __future__ import annotations

import torch
from torch import Tensor

from steepest.gradnorm.rules.base import Call, Rows, rule
from steepest.gradnorm.shares import Dense, Share

_T = torch.Tensor
_POSITIONAL = ("condition", "input", "other")


def _rows(call: Call, g: Tensor) -> Rows:
    """Take for rows what comes before the parameter's own dimensions, or else the first one."""
    own = max(call[name].ndim for name in call.wanted)
    names = [name for name in _POSITIONAL if name not in call.wanted]
    given = {name: call.get(name) for name in names}
    data = {name: t.expand(g.shape) for name, t in given.items() if isinstance(t, Tensor)}
    return Rows(data, max(1, g.ndim - own))


@rule(
    torch.add, _T.add, _T.add_, torch.sub, _T.sub, _T.sub_, torch.rsub, _T.__rsub__,
    torch.mul, _T.mul, torch.div, _T.div, _T.__rtruediv__, torch.true_divide, _T.true_divide,
    torch.maximum, _T.maximum, torch.minimum, _T.minimum, torch.pow, _T.pow, _T.__pow__,
    arguments="input other", rows=_rows,
)  # fmt: skip
def elementwise(call: Call, g: Tensor) -> dict[str, Share]:
    """Element by element: what the spread-out parameter would get, summed over where it went."""
    return {name: _spread(call, name, g) for name in call.wanted}


@rule(torch.where, arguments="condition input other", rows=_rows)
def choice(call: Call, g: Tensor) -> dict[str, Share]:
    """Choice element by element, as for mask tokens."""
    return {name: _spread(call, name, g) for name in call.wanted}


@rule(_T.expand, _T.expand_as, torch.broadcast_to, _T.broadcast_to, arguments="input size")
def expansion(call: Call, g: Tensor) -> dict[str, Share]:
    """A parameter repeated for every sample without a copy."""
    return {"input": _summed(call, call["input"].shape, g)}


@rule(_T.repeat, arguments="input sizes")
def repetition(call: Call, g: Tensor) -> dict[str, Share]:
    """A parameter copied for every sample: all of it, then all of it again."""
    shape = call["input"].shape
    padded = [1] * (g.ndim - len(shape)) + list(shape)
    if call.layout.outer > 1 and padded[call.layout.dim] > 1:
        raise NotImplementedError  # Samples would share out the elements.
    first = call.samples_first(g)
    parts = [(size // s, s) for s, size in zip(padded, first.shape[1:], strict=True)]
    copies = first.reshape(call.samples, *(size for part in parts for size in part))
    summed = copies.sum([1 + 2 * d for d in range(g.ndim)])
    return {"input": Dense(summed.reshape(call.samples, *shape))}


def _spread(call: Call, name: str, g: Tensor) -> Share:
    """Take the derivative with respect to the parameter spread out to the output's shape."""
    if call.function in {_T.add_, _T.sub_} and name != "other":
        raise NotImplementedError
    parameter: Tensor = call[name]
    with torch.enable_grad():
        full = parameter.detach().expand(g.shape).requires_grad_()
        arguments = dict(call.arguments) | {name: full}
        for other, value in arguments.items():
            if other != name and isinstance(value, Tensor):
                arguments[other] = value.detach()
        if call.function in {_T.add_, _T.sub_}:
            signs = {_T.add_: 1, _T.sub_: -1}
            return _summed(call, parameter.shape, signs[call.function] * call.get("alpha", 1) * g)
        keywords = {k: v for k, v in arguments.items() if k not in _POSITIONAL}
        values = [arguments[k] for k in _POSITIONAL if k in arguments]
        output = call.function(*values, **keywords)
    (gradient,) = torch.autograd.grad(output, full, g.to(output.dtype))
    return _summed(call, parameter.shape, gradient)


def _summed(call: Call, shape: torch.Size, gradient: Tensor) -> Share:
    """Sum a gradient of the output's shape over where a parameter of some shape was spread."""
    first = call.samples_first(gradient)
    padded = [1] * (gradient.ndim - len(shape)) + list(shape)
    over = [1 + d for d, size in enumerate(padded) if size == 1 and first.shape[1 + d] != 1]
    if padded[call.layout.dim] != 1:
        raise NotImplementedError  # The parameter has an entry of its own for every sample.
    summed = first.sum(over) if over else first
    return Dense(summed.reshape(call.samples, *shape))
