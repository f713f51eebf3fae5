"""Arguments of calls, and the kind of the called function."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import FunctionType
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils import _pytree as pytree

from steepest.gradnorm.watch.recurrent import CELLS, LAYERS, can_be_opened

_NESTS = (list, tuple, dict, slice)
_PLAIN = frozenset({int, float, bool, str, type(None)})


class Arguments:
    """The arguments of one call as a flat list, and the way back.

    Args:
        args: Positional arguments.
        kwargs: Named arguments.

    Attributes:
        values: Everything that was given, out of lists and the like that may hold tensors.
    """

    def __init__(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        self._positional = len(args)
        self._names = tuple(kwargs)
        self._nest: pytree.TreeSpec | None = None
        self.values: list[Any] = [*args, *kwargs.values()]
        for value in self.values:
            if isinstance(value, _NESTS) and _may_hold_tensors(value):
                self.values, self._nest = pytree.tree_flatten(self.values, is_leaf=_is_slice)
                break

    def rebuild(self, values: list[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return arguments of the same form with other values."""
        if self._nest is not None:
            values = pytree.tree_unflatten(values, self._nest)
        named = values[self._positional :]
        return tuple(values[: self._positional]), dict(zip(self._names, named, strict=True))

    def named(self, order: Sequence[str], values: list[Any]) -> dict[str, Any]:
        """Return arguments of the same form by name, where ``order`` names positional ones."""
        if self._nest is not None:
            values = pytree.tree_unflatten(values, self._nest)
        if not self._names:
            return dict(zip(order, values, strict=False))
        found = dict(zip(order, values[: self._positional], strict=False))
        found.update(zip(self._names, values[self._positional :], strict=True))
        return found


def _is_slice(value: object) -> bool:
    return isinstance(value, slice)


def _may_hold_tensors(nest: Any) -> bool:  # noqa: ANN401 - a list or the like
    """Say whether to look into an argument; strides and the like are taken as they are."""
    return isinstance(nest, dict) or (
        not isinstance(nest, slice) and not _PLAIN.issuperset(map(type, nest))
    )


def is_in_place(func: Callable[..., Any], kwargs: Mapping[str, Any]) -> bool:
    """Say whether a function changes something that it is given."""
    name = getattr(func, "__name__", "")
    changes = name.endswith("_") and not name.endswith("__")
    return changes or name in _ITEM_SETTERS or kwargs.get("out") is not None


_ITEM_SETTERS = {
    "__setitem__", "__iadd__", "__isub__", "__imul__", "__itruediv__", "__idiv__", "__ipow__",
    "__imod__", "__ifloordiv__", "__iand__", "__ior__", "__ixor__", "__ilshift__", "__irshift__",
}  # fmt: skip

_ASKED = "device dtype is_leaf itemsize layout nbytes ndim requires_grad shape"
ASKS: frozenset[Callable[..., Any]] = frozenset(
    [
        *(getattr(Tensor, name).__get__ for name in _ASKED.split()),
        Tensor.dim, Tensor.is_floating_point, Tensor.numel, Tensor.size,
        torch.is_floating_point, torch.numel,
    ]
)  # fmt: skip
"""Functions that read a tensor's type or shape."""

_HOST = (
    "item tolist numpy __array__ __bool__ __int__ __float__ __index__ __complex__ __contains__ "
    "__len__ equal allclose is_nonzero"
)
HOST: frozenset[Callable[..., Any]] = frozenset(
    getattr(where, name)
    for where in (Tensor, torch)
    for name in _HOST.split()
    if name != "__len__" and hasattr(where, name)
)
"""Functions that copy values to the host."""

_FACTORIES = "zeros ones empty full zeros_like ones_like empty_like full_like"
_NEW = "new_zeros new_ones new_empty new_full"
FACTORIES: frozenset[Callable[..., Any]] = frozenset(
    [getattr(torch, name) for name in _FACTORIES.split()]
    + [getattr(Tensor, name) for name in _NEW.split()]
)
"""Functions that create tensors for a model to write its results into."""


def opened(
    func: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Callable[..., Any] | None:
    """Return a function such that the calls inside it are seen; None if that cannot be had.

    Functions of ``torch.nn.functional`` first ask whether somebody watches, and if so hand
    themselves over as a whole. The same code with an answer of no goes on to what it is made of,
    which is then watched. Recurrent cells and layers are put together anew.
    """
    if func in CELLS:
        return CELLS[func]
    if func in LAYERS:
        return LAYERS[func] if can_be_opened(args, kwargs) else None
    if not isinstance(func, FunctionType) or func.__globals__ is not vars(F):
        return None
    asks = ("has_torch_function", "has_torch_function_unary", "has_torch_function_variadic")
    world = {**func.__globals__, **dict.fromkeys(asks, _never)}
    found = FunctionType(func.__code__, world, func.__name__, func.__defaults__, func.__closure__)
    found.__kwdefaults__ = func.__kwdefaults__
    return found


def _never(*_: object) -> bool:
    return False
