"""Leave a model exactly as it was found, also after an exception: modes, flags, state, hooks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from operator import is_
from typing import Any

import torch
from torch import nn
from torch.utils.hooks import RemovableHandle

from steepest.errors import ModelError, first_line
from steepest.modules.batches import tensors_in

_TABLES = (nn.Embedding, nn.EmbeddingBag)
_CONTAINERS = (dict, list, set)
_SET = frozenset({"_buffers", "_modules", "_parameters", "_forward_hooks"})
"""Attributes that every module has and that a forward pass may change."""

_OWN = frozenset(vars(nn.Module())) - _SET
"""Attributes that every module has and that no forward pass changes."""


@contextmanager
def preserved(layers: Iterable[nn.Module]) -> Iterator[None]:
    """Restore the mode and ``requires_grad`` of all of a model's modules, and the random state.

    Gradients are never accumulated here (``torch.autograd.grad`` is used throughout), and hooks
    are removed by those who add them.
    """
    modes = [(module, module.training) for module in layers]
    renormed = [
        module.weight for module, _ in modes
        if isinstance(module, _TABLES) and module.max_norm is not None
    ]  # fmt: skip
    weights = [(weight, weight.detach().clone()) for weight in renormed]
    flags = [
        (p, p.requires_grad)
        for module, _ in modes
        for p in module._parameters.values()  # noqa: SLF001 - without a second walk
        if p is not None
    ]
    with _same_draws({p.device for p, _ in flags if p.is_cuda}):
        try:
            yield
        finally:
            for module, training in modes:
                if module.training != training:
                    module.training = training
            for parameter, flag in flags:
                if parameter.requires_grad != flag:
                    parameter.requires_grad_(flag)
            with torch.no_grad():
                for weight, values in weights:
                    weight.copy_(values)


@contextmanager
def _same_draws(devices: set[torch.device]) -> Iterator[None]:
    """Put back the random state of the host and of some GPUs."""
    if devices:
        with torch.random.fork_rng(devices=sorted(devices, key=str)):
            yield
        return
    state = torch.get_rng_state()  # The host's alone: to ask for other devices takes far longer.
    try:
        yield
    finally:
        torch.set_rng_state(state)


class Buffers:
    """Copies of modules' buffers, to put back what a forward pass changes or replaces."""

    def __init__(self, layers: Iterable[nn.Module]) -> None:
        self._saved = [
            (module, name, buffer, buffer._version, buffer.clone())  # noqa: SLF001 - cheaper than equality
            for module in layers
            for name, buffer in module._buffers.items()  # noqa: SLF001 - buffers, not saved ones alone
            if buffer is not None
        ]

    def changed(self) -> bool:
        """Return whether a buffer has changed."""
        return any(
            buffer._version != version  # noqa: SLF001
            or name not in module._buffers  # noqa: SLF001 - a scripted module's have no ``get``
            or module._buffers[name] is not buffer  # noqa: SLF001
            for module, name, buffer, version, _ in self._saved
        )

    def put_back(self) -> None:
        """Restore every buffer."""
        for module, name, buffer, version, values in self._saved:
            if buffer._version != version:  # noqa: SLF001
                buffer.copy_(values)
            module._buffers[name] = buffer  # noqa: SLF001


@contextmanager
def preserved_buffers(layers: Iterable[nn.Module]) -> Iterator[Buffers]:
    """Put back the buffers that a forward pass changes or replaces in all of a model's modules."""
    buffers = Buffers(layers)
    try:
        yield buffers
    finally:
        buffers.put_back()


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Put the model into eval mode, and leave it as it was found."""
    layers = list(model.modules())
    with (
        preserved(layers), preserved_buffers(layers),
        attributes_restored(layers, without_caches=False),
    ):  # fmt: skip
        try:
            model.eval()
        except NotImplementedError as error:
            raise ModelError(
                f"{type(model).__name__} cannot be put into eval mode ({first_line(error)}): give "
                "the torch.nn.Module that it was made from"
            ) from error
        yield


@contextmanager
def plain_attention() -> Iterator[None]:
    """Let torch's transformer layers run layer by layer, as in training.

    Fused, they pass over the layers within them, and pack padded samples into nested tensors,
    which have no rows.
    """
    fused = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fused)


class Attributes:
    """Attributes of a model's modules, to put back what a forward pass sets: a cache, a layer.

    A model that keeps what it computed from its parameters would otherwise keep our stand-ins.
    One that changes over for a batch of its liking would stay so for all others.

    Args:
        layers: All modules of the model.
        without_caches: Whether to hide what the model keeps in its own caches, from where no
            gradient gets back to the parameters.
    """

    def __init__(self, layers: Iterable[nn.Module], *, without_caches: bool = True) -> None:
        self._saved = [(now, now.copy()) for now in map(vars, layers)]
        held = [
            (name, value)
            for _, before in self._saved
            for name, value in before.items()
            if name not in _OWN and isinstance(value, _CONTAINERS)
        ]
        self._held = [(value, _contents(value) if value else ()) for _, value in held]
        self._caches = [
            value for name, value in held if isinstance(value, dict) and "cache" in name.lower()
        ] if without_caches else []  # fmt: skip
        self._hide_caches()

    def _hide_caches(self) -> None:
        for cache in self._caches:
            if cache and tensors_in(cache):
                cache.clear()

    def reset(self) -> None:
        """Put everything back before another forward pass."""
        self.put_back()
        self._hide_caches()

    def put_back(self) -> None:
        """Put everything back."""
        for now, before in self._saved:
            # Most often nothing was set, which is quick to see.
            if now.keys() != before.keys() or not all(map(is_, now.values(), before.values())):
                _put_back(now, before)
        for value, contents in self._held:
            if not value and not contents:
                continue
            present = _contents(value)
            if len(present) != len(contents) or not all(map(is_, present, contents)):
                _refill(value, contents)


@contextmanager
def attributes_restored(
    layers: Iterable[nn.Module], *, without_caches: bool = True
) -> Iterator[Attributes]:
    """Put back in the end whatever forward passes set in a model's modules."""
    attributes = Attributes(layers, without_caches=without_caches)
    try:
        yield attributes
    finally:
        attributes.put_back()


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


@contextmanager
def removing(handles: Sequence[RemovableHandle]) -> Iterator[None]:
    """Remove hooks in the end, also after an error."""
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
