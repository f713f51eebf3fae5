"""Parameters, and what a model makes of parameters alone before it meets the data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

_COPIES = {
    torch.Tensor.to, torch.Tensor.float, torch.Tensor.double, torch.Tensor.half,
    torch.Tensor.bfloat16, torch.Tensor.type, torch.Tensor.type_as, torch.Tensor.clone,
    torch.clone, torch.Tensor.contiguous, torch.Tensor.cuda, torch.Tensor.cpu,
}  # fmt: skip


@dataclass(eq=False)
class Source:
    """A tensor whose uses are watched.

    A parameter is one. So is a tensor computed from parameters alone, such as half of a
    projection's weight or a normalised weight: the model gets it as a separate leaf, and its
    gradients are sent back through ``origin`` sample by sample.

    Attributes:
        tensor: What the model holds.
        parameter: The parameter itself, if it is one.
        origin: The same values, connected to the parents.
        parents: The sources it was made of.
        maker: The function that made it.
        step: Its number among the sources.
        copy: What functions are given in its place.
        spent: Whether the model wrote into it, so that something else has taken its place.
    """

    tensor: Tensor
    parameter: nn.Parameter | None = None
    origin: Tensor | None = None
    parents: list[Source] = field(default_factory=list)
    maker: Callable[..., Any] | None = None
    step: int = -1
    copy: Tensor | None = None
    spent: bool = False

    def __post_init__(self) -> None:
        own = [] if self.parameter is None else [self.parameter]
        self._roots = frozenset(own).union(*(parent.roots() for parent in self.parents))

    def roots(self) -> frozenset[nn.Parameter]:
        """Return the parameters that this is or was made of."""
        return self._roots

    def span(self) -> tuple[int, int] | None:
        """Return the stretch of its parameter that this shows, each element once, or None."""
        if self.parameter is not None:
            return 0, self.tensor.numel()
        if len(self.parents) != 1:
            return None
        (parent,) = self.parents
        whole = parent.span()
        if whole is None:
            return None
        if self.maker in _COPIES and self._keeps_order(parent):
            return whole
        return _stretch(self.tensor, parent.tensor, whole)

    def _keeps_order(self, parent: Source) -> bool:
        """Say whether this copy has its elements in the same places as the original."""
        return (
            self.tensor.shape == parent.tensor.shape
            and self.tensor.is_contiguous()
            and parent.tensor.is_contiguous()
        )


def roots_of(sources: Iterable[Source]) -> set[nn.Parameter]:
    """Return the parameters that some sources are or were made of."""
    # A union of sets asks no parameter for its hash, which takes a while.
    return set[nn.Parameter]().union(*[source.roots() for source in sources])


def _stretch(view: Tensor, base: Tensor, whole: tuple[int, int]) -> tuple[int, int] | None:
    """Return the part of ``whole`` that a view of a base takes up, if it is one stretch."""
    if view.untyped_storage().data_ptr() != base.untyped_storage().data_ptr():
        return None
    if view.dtype != base.dtype or base.numel() != whole[1] - whole[0] or not _dense(base):
        return None
    if not _dense(view):
        return None
    start = whole[0] + int(view.storage_offset()) - int(base.storage_offset())
    return start, start + view.numel()


def _dense(tensor: Tensor) -> bool:
    """Say whether a tensor's elements fill one stretch of memory, each place once."""
    sizes = [(step, n) for step, n in zip(tensor.stride(), tensor.shape, strict=True) if n != 1]
    filled = 1
    for step, n in sorted(sizes):
        if step != filled:
            return False
        filled *= n
    return True


def spans_are_disjoint(sources: Sequence[Source]) -> bool:
    """Say whether the sources show different elements of their parameter."""
    spans = [source.span() for source in sources]
    found = sorted(span for span in spans if span is not None)
    if len(found) < len(spans):
        return False
    return all(a[1] <= b[0] for a, b in pairwise(found))
