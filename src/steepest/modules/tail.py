"""The part of a model behind its first dropout, where it can be run on its own.

Nothing is guessed. During one pass every layer notes what it reads and makes. If, from the first
dropout to the logits, each layer reads just what the one before it made (or a view of that), then
these layers, called in this order, are all that happens there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from steepest.modules.hooks import removing


class _View(NamedTuple):
    """Layout of a view within its base tensor."""

    whole: tuple[Any, ...]
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    shift: int

    def of(self, whole: Tensor) -> Tensor | None:
        """Return the same view of another tensor; None if that one is laid out in another way."""
        if _layout(whole) != self.whole:
            return None
        if whole.shape == self.shape and whole.stride() == self.stride:
            return whole
        return whole.as_strided(self.shape, self.stride, whole.storage_offset() + self.shift)


class Tail:
    """Layers that are called one after the other.

    Args:
        start: What the first one reads [N, ...].
        links: The layers, each with how it views what the one before it made.
        end: How the logits view what the last one made.
    """

    def __init__(
        self, start: Tensor, links: list[tuple[nn.Module, _View | None]], end: _View
    ) -> None:
        self._start = start
        self._links = links
        self._end = end

    def run(self) -> Tensor | None:
        """Return the logits [N, C, ...]; None if layers came to make something else."""
        with torch.inference_mode(mode=False), torch.no_grad():
            first = self._links[0][0]
            x: Tensor | None = self._start.clone() if _in_place(first) else self._start
            for module, view in self._links:
                x = x if view is None or x is None else view.of(x)
                if x is None:
                    return None
                x = module(x)
            return None if x is None else self._end.of(x)


class Watch:
    """Inputs and outputs of layers in one pass, from the first dropout on.

    Args:
        dropouts: The dropout layers.
    """

    def __init__(self, dropouts: Collection[nn.Module]) -> None:
        self._dropouts = dropouts
        self._links: list[tuple[nn.Module, _View | None]] = []
        self._start: tuple[Tensor, int] | None = None
        self._last: tuple[Tensor, int] | None = None
        self._depth = 0
        self._broken = False

    def enter(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Note what a layer reads."""
        self._depth += 1
        begun = self._start is not None
        if self._depth > 1 or self._broken or not (begun or module in self._dropouts):
            return
        x = args[0] if len(args) == 1 and not kwargs else None
        if not isinstance(x, Tensor) or not _is_plain(x):
            self._give_up()
        elif self._last is None:
            kept = x.clone() if _in_place(module) else x
            self._start = (kept, kept._version)  # noqa: SLF001 - nothing else tells of changes
            self._links.append((module, None))
        else:
            self._follow(module, x)

    def leave(self, made: object) -> None:
        """Note what a layer makes."""
        self._depth -= 1
        if self._depth > 0 or self._broken or self._start is None:
            return
        if isinstance(made, Tensor) and _is_plain(made):
            self._last = (made, made._version)  # noqa: SLF001
        else:
            self._give_up()

    def tail(self, logits: Tensor) -> Tail | None:
        """Return what happened between the first dropout and the logits, if it is known."""
        if self._broken or self._start is None or self._last is None or not _is_plain(logits):
            return None
        start, version = self._start
        end = _view_of(logits, *self._last)
        if end is None or start._version != version:  # noqa: SLF001
            return None
        return Tail(start, self._links, end)

    def _follow(self, module: nn.Module, x: Tensor) -> None:
        view = None if self._last is None else _view_of(x, *self._last)
        if view is None:
            self._give_up()
        else:
            self._links.append((module, view))

    def _give_up(self) -> None:
        self._broken = True
        # Activations of a whole batch are not held for nothing.
        self._links, self._start, self._last = [], None, None


@contextmanager
def watching(model: nn.Module, watch: Watch | None) -> Iterator[None]:
    """Let a watch see all calls of the model's layers; None sees nothing."""
    handles = []
    if watch is not None:
        for module in model.modules():
            if _is_layer(module):
                handles.append(module.register_forward_pre_hook(watch.enter, with_kwargs=True))
                # After all other hooks on it, which may change what it makes.
                handles.append(module.register_forward_hook(lambda _m, _a, made: watch.leave(made)))
    with removing(handles):
        yield


def _is_layer(module: nn.Module) -> bool:
    return not any(module.children()) or parametrize.is_parametrized(module)


def _in_place(module: nn.Module) -> bool:
    return bool(getattr(module, "inplace", False))


def _is_plain(x: Tensor) -> bool:
    return type(x) is Tensor and x.layout == torch.strided and not x.is_inference()


def _layout(x: Tensor) -> tuple[Any, ...]:
    return (tuple(x.shape), x.stride(), x.dtype, x.device)


def _view_of(part: Tensor, whole: Tensor, version: int) -> _View | None:
    """Return how one tensor lies in another; None if it does not, or that one has changed."""
    shared = part.untyped_storage().data_ptr() == whole.untyped_storage().data_ptr()
    same_kind = part.dtype == whole.dtype and part.is_conj() == whole.is_conj()
    if not shared or not same_kind or whole._version != version or part._version != version:  # noqa: SLF001
        return None
    shift = int(part.storage_offset() - whole.storage_offset())
    return _View(_layout(whole), tuple(part.shape), part.stride(), shift)
