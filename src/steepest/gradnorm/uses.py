"""One use of parameters on the data: what it was given, and what its gradient tells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from steepest.gradnorm.rules import Call
from steepest.gradnorm.shares import Built, Share
from steepest.gradnorm.sources import Source
from steepest.gradnorm.steps import Step

Phase = Literal["forward", "ignore", "rows", "measure"]
"""What a gradient that arrives is for: nothing that we asked for, or one of two things."""


class Listener(Protocol):
    """Hears of gradients as they arrive."""

    phase: Phase

    def arrived(self, use: Use) -> None:
        """All results of a use that can get a gradient may have got theirs."""


class Use:
    """One call of a function with parameters and data.

    Args:
        place: Its place among the steps of the model.
        step: What is known of it.
        samples: The number of samples N.
        given: Its arguments as the model gave them.
        inputs: The same with copies of the parameters.
        by_id: The sources among the arguments, by the id of their tensor.

    Attributes:
        listener: Hears of gradients.
        anchored: Whether the data that it was given is part of a graph already.
        gradients: The gradients of its results, as far as they have arrived.
        spoilt: Whether it cannot be measured from here.
    """

    def __init__(
        self,
        place: int,
        step: Step,
        samples: int,
        given: tuple[tuple[Any, ...], dict[str, Any]],
        inputs: tuple[tuple[Any, ...], dict[str, Any]],
        by_id: Mapping[int, Source],
    ) -> None:
        self.place, self.step, self.samples = place, step, samples
        self.sources = list(by_id.values())
        self._sources_at = [by_id.get(id(v)) for v in pytree.tree_leaves(given)]
        values, self._nest = pytree.tree_flatten(inputs)
        self.anchored = any(
            source is None and isinstance(value, Tensor) and value.requires_grad
            for source, value in zip(self._sources_at, values, strict=True)
        )
        self._values: list[Any] = [v.detach() if isinstance(v, Tensor) else v for v in values]
        self._versions: list[int] = []
        self.listener: Listener | None = None
        self.gradients: dict[int, Tensor] = {}
        self.results: list[Tensor] = []
        self.spoilt = False

    def seal(self) -> None:
        """Take note of the data as it is now that the function has run."""
        self._versions = self._now()

    def listen(self, result: Tensor) -> None:
        """Watch for the gradient of a result."""
        number = len(self.results)
        self.results.append(result.detach())

        def arrive(gradient: Tensor) -> None:
            if self.listener is None or self.listener.phase == "forward":
                # A model that takes gradients of its own has second derivatives.
                self.spoilt = True
            elif self.listener.phase != "ignore":
                self.gradients[number] = gradient.detach()
                self.listener.arrived(self)

        result.register_hook(arrive)  # type: ignore[no-untyped-call]

    def overwritten(self) -> bool:
        """Say whether something it was given has been changed in place since."""
        return self._now() != self._versions

    def _now(self) -> list[int]:
        return [v._version if isinstance(v, Tensor) else 0 for v in self._values]  # noqa: SLF001

    def release(self) -> None:
        """Let go of the data and of the gradients."""
        self._values, self.gradients = [], {}

    def shares(self, *, fused: bool = True) -> list[tuple[Source, Share]]:
        """Return what it adds to the gradients of its sources.

        Args:
            fused: Whether the rule may use hand-written kernels.

        Raises:
            NotImplementedError: If its rule does not cover the case.
        """
        rule, layout = self.step.rule, self.step.outputs[0]
        if rule is None or layout is None:
            return self._rerun()
        if rule.samples == "first" and layout.dim != 0:
            raise NotImplementedError
        g = _computable(self.gradients[0])
        values = [_like(v, g) for v in self._values]
        args, kwargs = pytree.tree_unflatten(values, self._nest)
        names = rule.bind(args, kwargs)
        at = rule.bind(*pytree.tree_unflatten(self._sources_at, self._nest))
        wanted = {name: s for name, s in at.items() if isinstance(s, Source)}
        if set(map(id, wanted.values())) != set(map(id, self.sources)):
            raise NotImplementedError  # A parameter within a list.
        call = Call(self.step.function, names, frozenset(wanted), layout, self.samples, fused=fused)
        found = rule.measure(call, g)
        return [(source, found[name]) for name, source in wanted.items()]

    def _rerun(self) -> list[tuple[Source, Share]]:
        """Run the function again for one sample at a time."""
        values, gradients = self._values, dict(self.gradients)
        cache: dict[int, list[Tensor]] = {}

        def build(index: int, sample: int) -> Tensor:
            if sample not in cache:
                cache.clear()
                cache[sample] = self._gradients_of(sample, values, gradients)
            return cache[sample][index]

        return [
            (
                source,
                Built(
                    lambda sample, index=index: build(index, sample),  # type: ignore[misc]
                    self.samples,
                    source.tensor.shape,
                ),
            )
            for index, source in enumerate(self.sources)
        ]

    def _gradients_of(
        self, sample: int, values: list[Any], gradients: Mapping[int, Tensor]
    ) -> list[Tensor]:
        leaves, results = self.again(sample, values)
        layouts = [layout for layout in self.step.outputs if layout is not None]
        pairs = [
            (result, layouts[number].one(gradients[number], sample, self.samples))
            for number, result in enumerate(results)
            if number in gradients and result.requires_grad
        ]
        if not pairs:
            return [torch.zeros_like(leaf) for leaf in leaves]
        outputs, seeds = zip(*pairs, strict=True)
        found: Sequence[Tensor | None] = torch.autograd.grad(
            outputs, leaves, seeds, allow_unused=True
        )
        return [
            torch.zeros_like(leaf) if g is None else g.to_dense().detach()
            for g, leaf in zip(found, leaves, strict=True)
        ]

    def again(
        self, sample: int, values: list[Any] | None = None
    ) -> tuple[list[Tensor], list[Tensor]]:
        """Run the function for one sample; return its parameters and its results."""
        leaves = {source: source.tensor.detach().requires_grad_() for source in self.sources}
        given = []
        at = zip(values or self._values, self.step.inputs, self._sources_at, strict=True)
        for value, layout, source in at:
            if source is not None:
                given.append(leaves[source])
            elif isinstance(value, Tensor) and layout is not None:
                given.append(layout.one(value, sample, self.samples))
            else:
                given.append(value)
        args, kwargs = pytree.tree_unflatten(given, self._nest)
        with torch.enable_grad(), torch.backends.cudnn.flags(enabled=False):
            results = self.step.function(*args, **kwargs)
        floats = [r for r in pytree.tree_leaves(results)
                  if isinstance(r, Tensor) and r.is_floating_point()]  # fmt: skip
        return [leaves[source] for source in self.sources], floats


def _computable(gradient: Tensor) -> Tensor:
    """Return a gradient in a precision in which squares can be added up."""
    if gradient.dtype == torch.float64 or gradient.device.type == "cuda":
        return gradient
    return gradient.float()


def _like(value: Any, gradient: Tensor) -> Any:  # noqa: ANN401
    if isinstance(value, Tensor) and value.is_floating_point():
        return value.to(gradient.dtype)
    return value
