"""Snapshots of module attributes that a forward pass may change."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from operator import is_
from typing import Any

from torch import Tensor, nn

from steepest.modules.batches import tensors_in

_CONTAINERS = (dict, list, set)
_SET = frozenset({"_buffers", "_modules", "_parameters"})
"""Attributes that every module has and that a forward pass may change."""

_OWN = frozenset(vars(nn.Module())) - _SET
"""Attributes that every module has and that no forward pass changes."""


@contextmanager
def attributes_restored(
    layers: Iterable[nn.Module], *, without_caches: bool = True
) -> Iterator[None]:
    """Put back whatever a forward pass sets in a model's modules: a cache, a flag, a layer.

    A model that keeps what it computed from its parameters would otherwise keep our stand-ins.
    One that changes over for a batch of its liking would stay so for all others.

    Args:
        layers: All modules of the model.
        without_caches: Whether to hide what the model keeps in caches of its own, from where no
            gradient gets back to the parameters.
    """
    saved = [(now, now.copy()) for now in map(vars, layers)]
    held = [
        (name, value, _contents(value) if value else ())
        for _, before in saved
        for name, value in before.items()
        if name not in _OWN and isinstance(value, _CONTAINERS)
    ]
    for name, value, _ in held if without_caches else ():
        if "cache" in name.lower() and isinstance(value, dict) and tensors_in(value):
            value.clear()
    try:
        yield
    finally:
        for now, before in saved:
            # Most often nothing was set, which is quick to see.
            if now.keys() != before.keys() or not all(map(is_, now.values(), before.values())):
                _put_back(now, before)
        for _, value, contents in held:
            if not value and not contents:
                continue
            present = _contents(value)
            if len(present) != len(contents) or not all(map(is_, present, contents)):
                _refill(value, contents)


def tensors_held(model: nn.Module) -> list[Tensor]:
    """Return all tensors that a model comes with, those in plain attributes included."""
    found = [*model.parameters(), *model.buffers()]
    for module in model.modules():
        for name, value in vars(module).items():
            if name not in _OWN and name not in _SET:
                found.extend(tensors_in(value))
    return found


def _put_back(now: dict[str, Any], before: dict[str, Any]) -> None:
    for name in now.keys() - before.keys() - _OWN:
        del now[name]
    for name, value in before.items():
        if name not in _OWN and now.get(name) is not value:
            now[name] = value


def _contents(value: Any) -> tuple[object, ...]:  # noqa: ANN401 - any container
    """Return what a container holds, the keys of a dict first; to be compared by identity."""
    return (*value, *value.values()) if isinstance(value, dict) else tuple(value)


def _refill(value: Any, contents: tuple[Any, ...]) -> None:  # noqa: ANN401
    value.clear()
    if isinstance(value, dict):
        half = len(contents) // 2
        value.update(zip(contents[:half], contents[half:], strict=True))
    elif isinstance(value, set):
        value.update(contents)
    else:
        value.extend(contents)
