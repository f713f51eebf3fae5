"""Parameters that have to be measured together, and how their shares add up."""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn

from steepest.core.memory import is_out_of_memory
from steepest.gradnorm.measure.routes import Routes, chunks
from steepest.gradnorm.measure.shares import Share, squares_of_sum, sum_of_gradients, sum_of_squares
from steepest.gradnorm.watch.sources import Source, roots_of

Squares = dict[nn.Parameter, Tensor]

_PART = 8
"""On a CPU gradients are built in this part of the scratch space: they stay near at hand."""


class Component:
    """Sources that hang together, and what has arrived for them.

    Most often one parameter with one use. A weight used twice has two shares, which are added
    before they are squared; sources made of parameters pass their gradients on to these.

    Attributes:
        sources: The sources, in the order in which they came to be.
        pending: How many uses have not reported yet.
    """

    def __init__(self, sources: Iterable[Source] = ()) -> None:
        self.sources = list(sources)
        self.pending = 0
        self._shares: dict[Source, list[Share]] = defaultdict(list)

    def add(self, source: Source, share: Share) -> None:
        """Keep the contribution of one use to the gradients of a source."""
        self._shares[source].append(share)

    def take(self, routes: Routes) -> Squares:
        """Return the squared norms [N] of the parameters, and let go of the shares."""
        if not self._shares:
            return {}
        shares, self._shares = self._shares, defaultdict(list)
        if len(shares) == 1:
            ((source, found),) = shares.items()
            if source.parameter is not None:
                return {source.parameter: squares_of_sum(found, routes)}
        routes.note("instantiate")
        return self._by_building(shares)

    def _by_building(self, shares: dict[Source, list[Share]]) -> Squares:
        """Build the gradients of a few samples at a time, and send them back to the parameters."""
        samples = next(iter(shares.values()))[0].samples
        floats = sum(source.tensor.numel() for source in self.sources)
        parts: dict[nn.Parameter, list[Tensor]] = defaultdict(list)
        if next(iter(shares)).tensor.device.type == "cpu":
            floats *= _PART
        for rows in chunks(samples, floats):
            built = {s: sum_of_gradients(found, rows) for s, found in shares.items()}
            for source in reversed(self.sources):
                if source in built and source.parameter is None:
                    for parent, gradients in pass_on(source, built.pop(source)):
                        built[parent] = built[parent] + gradients if parent in built else gradients
            for source, gradients in built.items():
                if source.parameter is not None:
                    parts[source.parameter].append(sum_of_squares(gradients))
        return {parameter: torch.cat(found) for parameter, found in parts.items()}


def group(sources: Iterable[Source]) -> dict[Source, Component]:
    """Put sources into one component that share a parameter, in the order of their making."""
    sources = list(sources)
    if all(source.parameter is not None for source in sources):
        return {source: Component([source]) for source in sources}
    found: dict[Source, Component] = {}
    by_root: dict[nn.Parameter, Component] = {}
    for source in sources:
        touched = [by_root[root] for root in source.roots() if root in by_root]
        component = touched[0] if touched else Component()
        for other in touched[1:]:
            if other is not component:
                component.sources.extend(other.sources)
                found.update(dict.fromkeys(other.sources, component))
                by_root.update(dict.fromkeys(roots_of(other.sources), component))
        component.sources.append(source)
        found[source] = component
        by_root.update(dict.fromkeys(source.roots(), component))
    for component in set(found.values()):
        component.sources.sort(key=lambda source: source.step)
    return found


def pass_on(source: Source, gradients: Tensor) -> Iterable[tuple[Source, Tensor]]:
    """Send per-sample gradients of a source back to what it was made of.

    Args:
        source: Made of others by one function.
        gradients: [n, *shape]; not to be used afterwards, as they may be written over.

    Returns:
        What it was made of, with gradients [n, *shape] of the same samples.
    """
    if source.origin is None:
        return []
    found = _side_by_side(source, gradients)
    return _one_by_one(source, gradients) if found is None else found


def _side_by_side(source: Source, gradients: Tensor) -> list[tuple[Source, Tensor]] | None:
    """Take the backward pass of a function for all samples at once, if torch can do that."""
    if source.origin is None or len(gradients) == 1:
        return None
    inputs = [parent.tensor for parent in source.parents]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # It may be as slow as one by one.
            found: Sequence[Tensor | None] = torch.autograd.grad(
                source.origin, inputs, gradients.to(source.origin.dtype),
                retain_graph=True, allow_unused=True, is_grads_batched=True,
            )  # fmt: skip
    except (RuntimeError, ValueError, TypeError) as error:
        if is_out_of_memory(error):
            raise
        return None  # Something on the way asks for values, or works in place.
    pairs = [(p, g) for p, g in zip(source.parents, found, strict=True) if g is not None]
    if len(pairs) == 1 and pairs[0][1].is_contiguous():
        return pairs
    # Those of several parents may share memory, and be written over.
    return [(p, g.clone(memory_format=torch.contiguous_format)) for p, g in pairs]


def _one_by_one(source: Source, gradients: Tensor) -> Iterable[tuple[Source, Tensor]]:
    if source.origin is None:
        return
    inputs = [parent.tensor for parent in source.parents]
    rows = [
        torch.autograd.grad(
            source.origin, inputs, gradient.to(source.origin.dtype),
            retain_graph=True, allow_unused=True,
        )
        for gradient in gradients
    ]  # fmt: skip
    for parent, column in zip(source.parents, zip(*rows, strict=True), strict=True):
        if column[0] is not None:
            yield parent, torch.stack(column)
