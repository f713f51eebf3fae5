"""What a forward pass may leave behind in a module's attributes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from operator import is_
from typing import Any

from torch import nn

_CONTAINERS = (dict, list, set)
_OWN = frozenset(vars(nn.Module())) - {"_buffers"}
"""What every module has, and no forward pass changes; a buffer may be set in one."""


@contextmanager
def attributes_restored(model: nn.Module) -> Iterator[None]:
    """Put back every attribute that a forward pass sets, such as a cache or a counter.

    A model that keeps what it computed from its parameters would otherwise keep our stand-ins.
    """
    saved = [(module, dict(vars(module))) for module in model.modules()]
    held = [
        (value, _contents(value))
        for _, before in saved
        for name, value in before.items()
        if isinstance(value, _CONTAINERS) and name not in _OWN
    ]
    try:
        yield
    finally:
        for module, before in saved:
            now = vars(module)
            # Most often nothing was set, which is quick to see.
            if now.keys() != before.keys() or not all(map(is_, now.values(), before.values())):
                _put_back(now, before)
        for value, contents in held:
            if _contents(value) != contents:
                _refill(value, contents)


def _put_back(now: dict[str, Any], before: dict[str, Any]) -> None:
    for name in now.keys() - before.keys() - _OWN:
        del now[name]
    for name, value in before.items():
        if name not in _OWN and now.get(name) is not value:
            now[name] = value


def _contents(value: Any) -> tuple[_Held, ...]:  # noqa: ANN401 - any container
    """Return what a container holds, by identity: tensors cannot be compared as wholes."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    return tuple(_Held(key, item) for key, item in items)


class _Held:
    """One item of a container; equal only to the very same one."""

    __slots__ = ("item", "key")

    def __init__(self, key: object, item: object) -> None:
        self.key, self.item = key, item

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Held) and self.item is other.item and self.key == other.key

    def __hash__(self) -> int:
        return id(self.item)


def _refill(value: Any, contents: tuple[_Held, ...]) -> None:  # noqa: ANN401
    value.clear()
    if isinstance(value, dict):
        value.update({held.key: held.item for held in contents})
    elif isinstance(value, set):
        value.update(held.item for held in contents)
    else:
        value.extend(held.item for held in contents)
