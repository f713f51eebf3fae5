"""One use of parameters on the data: what it was given, and what its gradient tells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol

import torch
from torch import Tensor
from torch.utils import _pytree as pytree
from torch.utils.hooks import RemovableHandle

from steepest.gradnorm.calls import Arguments
from steepest.gradnorm.cudnn import cudnn_allowed
from steepest.gradnorm.layout import Layout
from steepest.gradnorm.owners import owners_of, sort_rows
from steepest.gradnorm.routes import CHUNK_FLOATS
from steepest.gradnorm.rules import Call, Rule
from steepest.gradnorm.shares import Rerun, Share
from steepest.gradnorm.sources import Source
from steepest.gradnorm.steps import Step
from steepest.gradnorm.sweep import Sweep, Swept
from steepest.modules.precision import casting_as, casting_now

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
        args: Its positional arguments.
        kwargs: Its named arguments.
        sources: The sources among its arguments.

    Attributes:
        inputs: Its arguments, with copies of the parameters.
        listener: Hears of gradients.
        results: Its results, if they were to be kept.
        listening: How many of its results can get a gradient.
        gradients: The gradients of its results, as far as they have arrived.
        spoilt: Whether it cannot be measured from here.
    """

    def __init__(
        self,
        place: int,
        step: Step,
        samples: int,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        sources: list[Source],
    ) -> None:
        self.place, self.step, self.samples, self.sources = place, step, samples, sources
        self._arguments = Arguments(args, kwargs)
        by_id = {id(source.tensor): source for source in sources}
        copies = {id(source): source.tensor.detach().requires_grad_() for source in sources}
        given = self._arguments.values
        self._sources_at = [by_id.get(id(value)) for value in given]
        self._values: list[Any] = []
        self._tensors: list[Tensor] = []
        values = []
        for value, source in zip(given, self._sources_at, strict=True):
            goes_on = value if source is None else copies[id(source)]
            values.append(goes_on)
            if isinstance(goes_on, Tensor):
                goes_on = goes_on.detach()
                self._tensors.append(goes_on)
            self._values.append(goes_on)
        self.inputs = self._arguments.rebuild(values)
        self._copies = list(copies.values())
        self._arguments.values = []
        self._versions: list[int] = []
        self._casting = casting_now(sources[0].tensor.device)
        self._hooks: list[RemovableHandle] = []
        self.listener: Listener | None = None
        self.gradients: dict[int, Tensor] = {}
        self.results: list[Tensor] = []
        self._result_versions: list[int] = []
        self.listening = 0
        self.spoilt = False

    def copies(self) -> list[Tensor]:
        """Return what the function was given in place of the parameters."""
        return self._copies

    def seal(self) -> None:
        """Take note of the data as it is now that the function has run."""
        self._versions = self._now()
        self.inputs, self._copies = ((), {}), []

    def listen(self, result: Tensor, *, keep: bool) -> None:
        """Watch for the gradient of a result, and keep the result if asked to.

        The node behind it reports, after all hooks on the tensor itself: these may change the
        gradient.
        """
        node, place = result.grad_fn, result.output_nr
        if node is None:
            node = torch.autograd.graph.get_gradient_edge(result).node
        number = self.listening
        self.listening += 1
        if keep:
            self.results.append(result.detach())
            self._result_versions.append(result._version)  # noqa: SLF001

        def arrive(gradients: tuple[Tensor | None, ...]) -> None:
            gradient = gradients[place]
            if gradient is None:
                return
            if self.listener is None or self.listener.phase == "forward":
                # A model that takes gradients of its own has second derivatives.
                self.spoilt = True
            elif self.listener.phase != "ignore":
                self.gradients[number] = gradient.detach() if gradient.requires_grad else gradient
                self.listener.arrived(self)

        self._hooks.append(node.register_prehook(arrive))  # It must not hold the node.

    def close(self) -> None:
        """Let go of everything: nodes of a graph would keep it, and the graph, alive for ever."""
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()
        self.listener = None
        self.results = []
        self.release()

    def overwritten(self) -> bool:
        """Say whether something it was given has been changed in place since."""
        return self._now() != self._versions

    def results_overwritten(self) -> bool:
        """Say whether a result that was kept has been changed in place since."""
        return [r._version for r in self.results] != self._result_versions  # noqa: SLF001

    def _now(self) -> list[int]:
        return [tensor._version for tensor in self._tensors]  # noqa: SLF001

    def release(self) -> None:
        """Let go of the data and of the gradients."""
        self._values, self._tensors, self.gradients = [], [], {}

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
        call, wanted = self._called(rule, g, layout, fused=fused)
        found = rule.shares(call, g)
        return [(source, found[name]) for name, source in wanted.items()]

    def shares_by_row(
        self, weighted: Sequence[Tensor], *, fused: bool = True
    ) -> list[tuple[Source, Share]]:
        """Return what it adds to the gradients of its sources, wherever the samples are.

        Args:
            weighted: The gradients of its result for each of ``weights_to_send``.
            fused: Whether the rule may use hand-written kernels.

        Raises:
            NotImplementedError: If its rows cannot be told apart by sample.
        """
        rule, g = self.step.rule, _computable(self.gradients[0])
        if rule is None or rule.rows is None or g.is_nested:
            raise NotImplementedError
        call, wanted = self._called(rule, g, Layout(), fused=fused)
        rows = rule.rows(call, g)
        sorting = sort_rows(owners_of(rows, g, weighted, self.samples), self.samples)
        if sorting is None:
            return []
        found = rule.shares(sorting.call(call, rows), sorting.gradient(g, rows))
        return [(source, found[name]) for name, source in wanted.items()]

    def _called(
        self, rule: Rule, g: Tensor, layout: Layout, *, fused: bool
    ) -> tuple[Call, dict[str, Source]]:
        """Return the call as a rule sees it, and the sources among its arguments."""
        dtype = g.dtype
        at = self.step.inputs or [layout] * len(self._values)
        values = [
            v
            if not isinstance(v, Tensor) or v.dtype is dtype
            else _like(v, g, of_samples=at is not None)
            for v, at in zip(self._values, at, strict=True)
        ]
        names = self._arguments.named(rule.arguments, values)
        sources_at = self._arguments.named(rule.arguments, self._sources_at)
        wanted = {name: s for name, s in sources_at.items() if isinstance(s, Source)}
        if set(wanted.values()) != set(self.sources):
            raise NotImplementedError  # A parameter within a list.
        call = Call(self.step.function, names, frozenset(wanted), layout, self.samples, fused=fused)
        return call, wanted

    def is_swept(self) -> bool:
        """Say whether it is run again for each sample, with too many gradients to keep."""
        return self.step.rule is None and self.samples * self._floats() > CHUNK_FLOATS

    def _floats(self) -> int:
        return sum(source.tensor.numel() for source in self.sources)

    def _rerun(self) -> list[tuple[Source, Share]]:
        """Run the function again for one sample at a time."""
        values, gradients = self._values, dict(self.gradients)
        floats = self._floats()

        def build(sample: int) -> list[Tensor]:
            return self._gradients_of(sample, values, gradients)

        if self.samples * floats <= CHUNK_FLOATS:
            rows = [build(sample) for sample in range(self.samples)]
            columns = [torch.stack(column) for column in zip(*rows, strict=True)]
            return list(zip(self.sources, map(Rerun, columns), strict=True))
        sweep = Sweep(build, self.samples, block=max(1, CHUNK_FLOATS // floats))
        return [(s, Swept(sweep, n, s.tensor.shape)) for n, s in enumerate(self.sources)]

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
        args, kwargs = self._arguments.rebuild(given)
        with torch.enable_grad(), cudnn_allowed(False), casting_as(self._casting):
            results = self.step.function(*args, **kwargs)
        floats = [r for r in pytree.tree_leaves(results)
                  if isinstance(r, Tensor) and r.is_floating_point()]  # fmt: skip
        return [leaves[source] for source in self.sources], floats


def _computable(gradient: Tensor) -> Tensor:
    """Return a gradient in a precision in which squares can be added up."""
    wide = gradient.dtype in {torch.float32, torch.float64}
    return gradient if wide or gradient.is_cuda else gradient.float()


def _like(value: Tensor, gradient: Tensor, *, of_samples: bool) -> Tensor:
    if gradient.itemsize < value.itemsize <= 4 and not of_samples:
        return value  # What all samples share, as a running mean: its rounding would add up.
    return value.to(gradient.dtype) if value.is_floating_point() else value
