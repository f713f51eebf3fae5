"""Parameters, and what a model makes of parameters alone before it meets the data."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn


@dataclass(eq=False)
class Source:
    """A tensor whose uses are watched.

    A parameter is one. So is a tensor computed from parameters alone, such as half of a
    projection's weight or a normalised weight: the model gets it as a separate leaf, and its
    gradients are sent back through ``origin`` sample by sample.

    Attributes:
        tensor: The model's own tensor.
        parameter: The parameter itself, if it is one.
        origin: The same values, connected to the parents.
        parents: The sources it was made of.
        maker: The function that made it.
        step: Its number among the sources.
        copy: The tensor passed to functions in its place.
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


def roots_of(sources: Iterable[Source]) -> set[nn.Parameter]:
    """Return the parameters that some sources are or were made of."""
    # A union of sets asks no parameter for its hash, which takes a while.
    return set[nn.Parameter]().union(*[source.roots() for source in sources])
