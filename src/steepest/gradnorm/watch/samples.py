"""All samples of a batch at once, each as if it were alone: tensors in ``torch.vmap``.

Inside, a tensor that depends on the data shows the shape that it has for a batch of one. Its
values for all N samples stand in a larger tensor, whose first dimension holds the samples. So a
model cannot mix samples, and where they are never has to be guessed.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch._C import _functorch
from torch._functorch.pyfunctorch import temporarily_pop_interpreter_stack
from torch.utils import _pytree as pytree

from steepest.gradnorm.watch.sources import Source

_IS_BATCHED = _functorch.is_batchedtensor
_LEVEL = _functorch.maybe_get_level
_WARN: Callable[[bool], None] = vars(_functorch)["_set_vmap_fallback_warning_enabled"]
"""Whether to tell users that some function is done for one sample after the other."""


class Samples:
    """A level of ``torch.vmap`` over N samples.

    Args:
        count: The number of samples N.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self._level = -1

    @contextmanager
    def apart(self) -> Iterator[None]:
        """Let functions treat samples one by one, all at the same time."""
        self._level = _functorch._vmap_increment_nesting(self.count, "error")  # noqa: SLF001
        _WARN(False)
        try:
            yield
        finally:
            _WARN(True)
            _functorch._vmap_decrement_nesting()  # noqa: SLF001

    def inside(self) -> bool:
        """Say whether samples are apart at the moment."""
        return _functorch.maybe_current_level() is not None

    def nested(self) -> bool:
        """Say whether ``torch.func`` works on its own tensors at the moment."""
        found = _functorch.maybe_current_level()
        return bool(found is not None and found != self._level)

    def holds(self, value: object) -> bool:
        """Say whether a value is a tensor that may differ from sample to sample."""
        return (
            isinstance(value, Tensor) and _IS_BATCHED(value) and bool(_LEVEL(value) == self._level)
        )

    def all_of(self, tensor: Tensor) -> Tensor:
        """Return the values for all samples [N, ...]."""
        values: Tensor = _functorch.get_unwrapped(tensor)
        place: int = _functorch.maybe_get_bdim(tensor)
        return values.movedim(place, 0) if place else values

    def raw(self, tensor: Tensor) -> Tensor:
        """Return the values for all samples, wherever these stand; others as they are."""
        values: Tensor = _functorch.get_unwrapped(tensor) if self.holds(tensor) else tensor
        return values

    def place_in(self, tensor: Tensor) -> int:
        """Return the dimension of the raw values that holds the samples."""
        place: int = _functorch.maybe_get_bdim(tensor)
        return place

    def leads_back(self, value: object) -> bool:
        """Say whether a tensor that depends on the data has been made by a watched call."""
        return self.holds(value) and bool(self.raw(value).requires_grad)  # type: ignore[arg-type]

    def each_of(self, values: Tensor, place: int = 0) -> Tensor:
        """Return the tensor that shows one of many [N, ...]."""
        tensor: Tensor = _functorch._add_batch_dim(values, place, self._level)  # noqa: SLF001
        return tensor

    @contextmanager
    def outside(self) -> Iterator[None]:
        """Leave the level for a moment: leaves of a graph cannot be made within."""
        if self._level < 0 or _functorch.maybe_current_level() is None:
            yield
            return
        with temporarily_pop_interpreter_stack():
            yield

    def leaf(self, value: Tensor) -> Tensor:
        """Return a copy of a tensor that a graph starts at."""
        with self.outside():
            return value.detach().requires_grad_()

    def leaf_of(self, source: Source) -> Tensor:
        """Return a copy of a source, the same one for all its uses."""
        if source.copy is None:
            source.copy = self.leaf(source.tensor)
        return source.copy

    def batch(self, outputs: Any, few: int, shapes: list[torch.Size]) -> Any:  # noqa: ANN401
        """Return the model's output for the whole batch.

        Args:
            outputs: Its result for each sample.
            few: A number of samples.
            shapes: Of the tensors that it returned for so many.
        """
        left = iter(shapes)

        def whole(tensor: Tensor) -> Tensor:
            values = tensor[None].expand(self.count, *tensor.shape)
            if self.holds(tensor):
                values = self.all_of(tensor)
            elif self.count != 1 and not tensor.ndim:
                return tensor
            if values.ndim < 2:
                return values
            large, one = next(left, None), values.shape[1:]
            grown = [
                d
                for d, (n, m) in enumerate(zip(large or (), one, strict=False))
                if n == few * m and few > 1 and m
            ]
            if large is not None and not grown and few > 1 and not self.holds(tensor):
                return tensor  # The same for any number of samples.
            dim = grown[0] if grown else 0
            return values.movedim(0, dim).flatten(dim, dim + 1)

        return _changed(outputs, whole)


def shapes_of(outputs: Any) -> list[torch.Size]:  # noqa: ANN401
    """Return the shapes of the tensors in a model's output, in the order of ``batch``."""
    found: list[torch.Size] = []

    def note(tensor: Tensor) -> Tensor:
        if tensor.ndim:
            found.append(tensor.shape)
        return tensor

    _changed(outputs, note)
    return found


def _changed(outputs: Any, change: Callable[[Tensor], Tensor]) -> Any:  # noqa: ANN401
    """Return the outputs of a model with every tensor changed."""

    def leaf(value: Any) -> Any:  # noqa: ANN401
        if isinstance(value, Tensor):
            return change(value)
        if not hasattr(value, "__dict__") or isinstance(value, type) or callable(value):
            return value
        changed = {
            name: _changed(held, change)
            for name, held in vars(value).items()
            if isinstance(held, (Tensor, list, tuple, dict))
        }
        if not changed:
            return value
        found = copy.copy(value)
        vars(found).update(changed)
        return found

    return pytree.tree_map(leaf, outputs)
