"""One use of parameters on the data: its inputs, and the measurement of its gradient."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Protocol

import torch
from torch import Tensor
from torch.utils import _pytree as pytree
from torch.utils.hooks import RemovableHandle

from steepest.core.memory import is_out_of_memory
from steepest.gradnorm.measure.routes import Routes, chunks
from steepest.gradnorm.measure.shares import Share, sum_of_squares
from steepest.gradnorm.rules import Call, Rule
from steepest.gradnorm.watch.calls import Arguments
from steepest.gradnorm.watch.cudnn import cudnn_allowed
from steepest.gradnorm.watch.samples import Samples
from steepest.gradnorm.watch.sources import Source
from steepest.modules.precision import casting_as, casting_now

Phase = Literal["forward", "ignore", "measure"]
"""What a gradient that arrives is for: nothing that we asked for, or for us."""


class Listener(Protocol):
    """Hears of gradients as they arrive."""

    phase: Phase

    def arrived(self, use: Use) -> None:
        """One of the results of a use has got its gradient."""


class Use:
    """One call of a function with parameters and data.

    Args:
        place: Its place among the uses of the model.
        function: The called function.
        rule: Its rule, if it has one.
        samples: The samples.
        arguments: Its arguments.
        sources: The sources among its arguments.

    Attributes:
        listener: Hears of gradients.
        listening: How many of its results can get a gradient.
        gradients: The gradients of its results [N, ...], as far as they have arrived.
        spoilt: Whether it cannot be measured from here.
        given: The shapes of the tensors that it was given.
        returned: The shapes of those that it returned.
    """

    def __init__(
        self,
        place: int,
        function: Callable[..., Any],
        rule: Rule | None,
        samples: Samples,
        arguments: Arguments,
        sources: list[Source],
    ) -> None:
        self.place, self.function, self.rule, self.sources = place, function, rule, sources
        self.samples = samples.count
        self.arguments = arguments
        by_id = {id(source.tensor): source for source in sources}
        self.sources_at = [by_id.get(id(value)) for value in arguments.values]
        self.apart = [samples.holds(value) for value in arguments.values]
        self.values = [
            samples.all_of(value).detach()
            if apart
            else value.detach()
            if isinstance(value, Tensor)
            else value
            for value, apart in zip(arguments.values, self.apart, strict=True)
        ]
        arguments.values = []
        tensors = [v for v in self.values if isinstance(v, Tensor)]
        apart = [a for v, a in zip(self.values, self.apart, strict=True) if isinstance(v, Tensor)]
        self._tensors = tensors
        self.given = tuple(map(_as_batch, [t.shape for t in tensors], apart))
        self.returned: tuple[tuple[int, ...], ...] = ()
        self._versions: list[int] = []
        self.casting = casting_now(sources[0].tensor.device)
        self._hooks: list[RemovableHandle] = []
        self.listener: Listener | None = None
        self.gradients: dict[int, Tensor] = {}
        self.listening = 0
        self.spoilt = False

    def seal(self) -> None:
        """Take note of the data as it is now that the function has run."""
        self._versions = self._now()

    def listen(self, result: Tensor, shape: torch.Size | None, at: int) -> None:
        """Watch for the gradient of a result.

        The node behind it reports, after all hooks on the tensor itself: these may change the
        gradient.

        Args:
            result: The values of all samples.
            shape: The shape [N, ...] that they have by sample, if it is another one.
            at: The dimension of the samples.
        """
        node, place = result.grad_fn, result.output_nr
        if node is None:
            node = torch.autograd.graph.get_gradient_edge(result).node
        number = self.listening
        self.listening += 1
        seen = shape or torch.Size((result.shape[at], *result.shape[:at], *result.shape[at + 1 :]))
        self.returned = (*self.returned, _as_batch(seen, apart=True))

        def arrive(gradients: tuple[Tensor | None, ...]) -> None:
            gradient = gradients[place]
            if gradient is None:
                return
            if self.listener is None or self.listener.phase == "forward":
                # A model that takes its own gradients has second derivatives.
                self.spoilt = True
            elif self.listener.phase != "ignore":
                gradient = gradient.detach() if gradient.requires_grad else gradient
                if shape is not None:
                    gradient = gradient.reshape(shape)
                self.gradients[number] = gradient.movedim(at, 0) if at else gradient
                self.listener.arrived(self)

        self._hooks.append(node.register_prehook(arrive))  # It must not hold the node.

    def close(self) -> None:
        """Let go of everything: nodes of a graph would keep it, and the graph, alive for ever."""
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()
        self.listener = None
        self.release()

    def overwritten(self) -> bool:
        """Say whether something it was given has been changed in place since."""
        return self._now() != self._versions

    def _now(self) -> list[int]:
        return [tensor._version for tensor in self._tensors]  # noqa: SLF001

    def release(self) -> None:
        """Let go of the data and of the gradients."""
        self.values, self._tensors, self.gradients = [], [], {}

    def shares(self, *, fused: bool = True) -> list[tuple[Source, Share]]:
        """Return its contributions to the gradients of its sources.

        Args:
            fused: Whether the rule may use hand-written kernels.
        """
        if self.rule is not None and set(self.gradients) == {0}:
            g = _computable(self.gradients[0])
            try:
                call, wanted = self._called(self.rule, g, fused=fused)
                found = self.rule.shares(call, g)
                return [(source, found[name]) for name, source in wanted.items()]
            except _NOT_COVERED as error:
                if is_out_of_memory(error):
                    raise
        differentiated = _Differentiated(self)
        return [(source, Built(differentiated, n)) for n, source in enumerate(self.sources)]

    def _called(self, rule: Rule, g: Tensor, *, fused: bool) -> tuple[Call, dict[str, Source]]:
        """Return the call as a rule sees it, and the sources among its arguments."""
        values = [
            v if not isinstance(v, Tensor) or v.dtype is g.dtype else _like(v, g, of_samples=apart)
            for v, apart in zip(self.values, self.apart, strict=True)
        ]
        names = self.arguments.named(rule.arguments, values)
        apart = self.arguments.named(rule.arguments, self.apart)
        sources_at = self.arguments.named(rule.arguments, self.sources_at)
        wanted = {name: s for name, s in sources_at.items() if isinstance(s, Source)}
        if set(wanted.values()) != set(self.sources) or len(wanted) != len(self.sources):
            raise NotImplementedError  # A parameter within a list, or twice.
        batched = frozenset(name for name, is_apart in apart.items() if is_apart is True)
        call = Call(self.function, names, batched, frozenset(wanted), self.samples, fused=fused)
        return call, wanted


_NOT_COVERED = (NotImplementedError, RuntimeError, IndexError, KeyError, TypeError, ValueError)
"""Errors raised by a rule for a call that it does not support."""


class _Differentiated:
    """A call without a rule, differentiated for some samples at a time.

    Args:
        use: The call, and the gradients of its results.
    """

    def __init__(self, use: Use) -> None:
        self.function, self.sources, self.samples = use.function, use.sources, use.samples
        self._arguments, self._values = use.arguments, use.values
        self._apart, self._sources_at = use.apart, use.sources_at
        self._casting, self._gradients = use.casting, dict(use.gradients)
        self.floats = sum(source.tensor.numel() for source in self.sources)
        self._kept: tuple[slice, list[Tensor]] | None = None
        self.at_once = True

    def gradients(self, rows: slice) -> list[Tensor]:
        """Return the gradients [n, *shape] of every source."""
        if self._kept is None or self._kept[0] != rows:
            self._kept = None
            self._kept = (rows, self._built(rows))
        return self._kept[1]

    def _built(self, rows: slice) -> list[Tensor]:
        values = [v[rows] for v, apart in zip(self._values, self._apart, strict=True) if apart]
        seeds = {number: g[rows] for number, g in self._gradients.items()}
        if self.at_once:
            try:
                with warnings.catch_warnings(), casting_as(self._casting), torch.enable_grad():
                    warnings.simplefilter("ignore")  # Some parts may be as slow as one by one.
                    found: list[Tensor] = torch.func.vmap(self._one)(values, seeds)
                    return found
            except (RuntimeError, ValueError, TypeError, NotImplementedError) as error:
                if is_out_of_memory(error):
                    raise
                self.at_once = False
        each = []
        for n in range(len(next(iter(seeds.values())))):
            one = [value[n] for value in values]
            each.append(self._alone(one, {number: g[n] for number, g in seeds.items()}))
        return [torch.stack(column) for column in zip(*each, strict=True)]

    def _results(self, parameters: Sequence[Tensor], data: Sequence[Tensor]) -> list[Tensor]:
        """Run the function for one sample; return its results with a fraction."""
        mine, theirs = dict(zip(map(id, self.sources), parameters, strict=True)), iter(data)
        given = [
            mine[id(source)] if source is not None else next(theirs) if apart else value
            for value, apart, source in zip(
                self._values, self._apart, self._sources_at, strict=True
            )
        ]
        args, kwargs = self._arguments.rebuild(given)
        with cudnn_allowed(False):
            results = self.function(*args, **kwargs)
        leaves = pytree.tree_leaves(results)
        return [r for r in leaves if isinstance(r, Tensor) and r.is_floating_point()]

    def _one(self, data: list[Tensor], seeds: Mapping[int, Tensor]) -> list[Tensor]:
        parameters = tuple(source.tensor.detach() for source in self.sources)

        def reached(*given: Tensor) -> tuple[Tensor, ...]:
            results = self._results(given, data)
            return tuple(results[number] for number in seeds)

        results, back, *_ = torch.func.vjp(reached, *parameters)
        found: tuple[Tensor, ...] = back(
            tuple(g.to(r.dtype) for g, r in zip(seeds.values(), results, strict=True))
        )
        return list(found)

    def _alone(self, data: list[Tensor], seeds: Mapping[int, Tensor]) -> list[Tensor]:
        leaves = [source.tensor.detach().requires_grad_() for source in self.sources]
        with torch.enable_grad(), casting_as(self._casting):
            results = self._results(leaves, data)
        outputs = [results[number] for number in seeds]
        found: Sequence[Tensor | None] = torch.autograd.grad(
            outputs, leaves, list(seeds.values()), allow_unused=True
        )
        return [
            torch.zeros_like(leaf) if g is None else g.to_dense().detach()
            for g, leaf in zip(found, leaves, strict=True)
        ]


class Built(Share):
    """Gradients that torch builds for some samples at a time.

    Args:
        differentiated: The call; shared by its sources.
        number: Which of them this is.
    """

    def __init__(self, differentiated: _Differentiated, number: int) -> None:
        self._call, self._number = differentiated, number
        self.samples = differentiated.samples
        self.shape = differentiated.sources[number].tensor.shape

    def squares(self, routes: Routes) -> Tensor:
        """Return squared norms [N]."""
        rows_of = chunks(self.samples, self._call.floats)
        parts = [sum_of_squares(self.dense(rows)) for rows in rows_of]
        routes.note("vmap" if self._call.at_once else "sample by sample")
        return torch.cat(parts)

    def dense(self, rows: slice) -> Tensor:
        """Build gradients [n, *shape]."""
        return self._call.gradients(rows)[self._number].clone()


def _as_batch(shape: torch.Size, apart: bool) -> tuple[int, ...]:
    """Return a shape as for a batch: what is [N, 1, ...] here is [N, ...] there."""
    if not apart or len(shape) < 2:
        return tuple(shape)
    return (shape[0] * shape[1], *shape[2:])


def _computable(gradient: Tensor) -> Tensor:
    """Return a gradient in a precision in which squares can be added up."""
    wide = gradient.dtype in {torch.float32, torch.float64}
    return gradient if wide or gradient.is_cuda else gradient.float()


def _like(value: Tensor, gradient: Tensor, *, of_samples: bool) -> Tensor:
    if gradient.itemsize < value.itemsize <= 4 and not of_samples:
        return value  # What all samples share, as a running mean: its rounding would add up.
    return value.to(gradient.dtype) if value.is_floating_point() else value
