"""Watch a model's forward pass: every torch function that takes parameters.

Where a parameter meets the data, the function gets a copy of it whose gradient nobody collects, so
that no weight gradient of the batch is ever built, and the result gets a hook that measures the
call the moment its gradient arrives. A parameter that receives a gradient from autograd itself was
used in a way that could not be watched; it is measured sample by sample instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import FunctionType
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree
from torch.utils.weak import WeakTensorKeyDictionary

from steepest.gradnorm.rules import RULES
from steepest.gradnorm.sources import Source
from steepest.gradnorm.steps import Kind, Plan, Step, samples_in, shapes_of
from steepest.gradnorm.uses import Use

_IN_PLACE = {torch.Tensor.add_, torch.Tensor.sub_}
_RECURRENT = {torch.lstm, torch.gru, torch.rnn_tanh, torch.rnn_relu}


class UnwatchableError(Exception):
    """A source was changed in place; its parameters have to be left alone."""

    def __init__(self, roots: set[nn.Parameter]) -> None:
        super().__init__()
        self.roots = roots


class Watch(TorchFunctionMode):
    """The forward pass of one batch.

    Args:
        parameters: Whose uses are watched.
        samples: The number of samples N.
        plan: What to expect; None to record it.
        data: The batch's tensors, to tell what depends on the data; needed to record.
        kinds: Corrections by step, where an earlier recording got the kind wrong.

    Attributes:
        steps: What was recorded, or followed.
        uses: The uses, with their place among the steps.
        sources: Every watched tensor.
        derailed: Whether the model did something else than planned.
    """

    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        samples: int,
        plan: Plan | None = None,
        *,
        data: Iterable[Tensor] = (),
        kinds: Mapping[int, Kind] | None = None,
    ) -> None:
        super().__init__()
        self.samples = samples
        self._plan = plan
        self._kinds = kinds or {}
        self._by_id = {id(p): Source(p, parameter=p) for p in parameters}
        self._from_data = WeakTensorKeyDictionary()
        for tensor in data:
            self._from_data[tensor] = True
        self._anchors: dict[tuple[torch.dtype, torch.device], Tensor] = {}
        self.steps: list[Step] = []
        self.uses: list[Use] = []
        self.derailed = False

    @property
    def sources(self) -> list[Source]:
        """Every watched tensor, in the order in which they came to be."""
        return list(self._by_id.values())

    def leaves(self) -> list[Tensor]:
        """Return what a backward pass has to reach for every use's gradient to arrive."""
        return [*self._anchors.values(), *(source.tensor for source in self._by_id.values())]

    def __torch_function__(
        self,
        func: Callable[..., Any],
        _types: Any,  # noqa: ANN401
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401
        """Let one torch function run, and take part where parameters are concerned."""
        kwargs = kwargs or {}
        found = self._sources_in(args, kwargs) if torch.is_grad_enabled() else []
        if not found or self.derailed:
            result = func(*args, **kwargs)
            if self._plan is None:
                self._note_data(args, kwargs, result)
            return result
        if func not in RULES and (opened := _opened(func)) is not None:
            with self:
                return opened(*args, **kwargs)
        if self._plan is not None:
            return self._follow(self._plan, func, args, dict(kwargs), found)
        return self._record(func, args, dict(kwargs), found)

    def _follow(
        self,
        plan: Plan,
        func: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        found: list[Source],
    ) -> Any:  # noqa: ANN401
        place = len(self.steps)
        if place >= len(plan.steps) or plan.steps[place].function != func:
            self.derailed = True
            return func(*args, **kwargs)
        step = plan.steps[place]
        self.steps.append(step)
        if step.kind == "skip":
            return func(*args, **kwargs)
        if step.kind == "derived":
            return self._derive(place, func, args, kwargs, found)
        if func in _IN_PLACE and not samples_in(step, shapes_of(args[0]), self.samples):
            return func(*args, **kwargs)
        result, use = self._call(place, step, args, kwargs, found)
        if not samples_in(step, shapes_of(result), self.samples):
            return func(*args, **kwargs)  # Its parameters get a gradient, which tells.
        return self._kept(use, result)

    def _record(
        self,
        func: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        found: list[Source],
    ) -> Any:  # noqa: ANN401
        place = len(self.steps)
        kind = self._kinds.get(place)
        roots = {root for source in found for root in source.roots()}
        step = Step(func, kind or "use", roots, shapes_of((args, kwargs)))
        self.steps.append(step)
        met_data = any(isinstance(v, Tensor) and v in self._from_data
                       for v in pytree.tree_leaves((args, kwargs)))  # fmt: skip
        if kind is None and not met_data:
            result = self._derive(place, func, args, kwargs, found)
            made = any(source.step == place for source in self._by_id.values())
            step.kind = "derived" if made else "skip"
            step.returned = shapes_of(result)
            return result
        step.rule = RULES.get(func)
        result, use = self._call(place, step, args, kwargs, found)
        step.returned = shapes_of(result)
        result = self._kept(use, result)
        self._note_data(args, kwargs, result, always=True)
        return result

    def _call(
        self,
        place: int,
        step: Step,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        found: list[Source],
    ) -> tuple[Any, Use]:
        """Run a function with copies of the parameters.

        The copies ask for a gradient, as torch takes other ways where nothing does, but nobody
        collects it, so that it is never computed.
        """
        by_id = {id(source.tensor): source for source in found}

        def plain(value: Any) -> Any:  # noqa: ANN401
            return value.detach().requires_grad_() if id(value) in by_id else value

        inputs = pytree.tree_map(plain, (args, kwargs))
        use = Use(place, step, self.samples, (args, kwargs), inputs, by_id)
        if step.function in _RECURRENT:
            # cuDNN refuses a backward pass in eval mode.
            with torch.backends.cudnn.flags(enabled=False):
                return step.function(*inputs[0], **inputs[1]), use
        return step.function(*inputs[0], **inputs[1]), use

    def _derive(
        self,
        place: int,
        func: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        found: list[Source],
    ) -> Any:  # noqa: ANN401
        """Run a function of parameters alone; its results are sources themselves."""
        try:
            result = func(*args, **kwargs)
        except RuntimeError as error:
            made = [source for source in found if source.parameter is None]
            if "in-place" in str(error) and made:
                raise UnwatchableError({r for s in made for r in s.roots()}) from error
            raise
        if any(value is source.tensor for value in pytree.tree_leaves(result) for source in found):
            return result

        def leaf(value: Any) -> Any:  # noqa: ANN401
            if not isinstance(value, Tensor) or not value.requires_grad:
                return value
            tensor = value.detach().requires_grad_()
            source = Source(tensor, None, value, found, func, place)
            self._by_id[id(tensor)] = source
            return tensor

        return pytree.tree_map(leaf, result)

    def _kept(self, use: Use, result: Any) -> Any:  # noqa: ANN401
        """Let a graph start at the results if there is none yet, and have them report."""
        self.uses.append(use)
        use.seal()

        def anchored(value: Any) -> Any:  # noqa: ANN401
            if not isinstance(value, Tensor) or not value.is_floating_point():
                return value
            if not use.anchored:
                # The sum is no leaf, so that an in-place activation may follow.
                value = value + self._anchor(value)
            use.listen(value)
            return value

        return pytree.tree_map(anchored, result)

    def _anchor(self, like: Tensor) -> Tensor:
        key = (like.dtype, like.device)
        if key not in self._anchors:
            zero = torch.zeros((), dtype=like.dtype, device=like.device, requires_grad=True)
            self._anchors[key] = zero
        return self._anchors[key]

    def _sources_in(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Source]:
        found: list[Source] = []
        for value in (*args, *kwargs.values()):
            if isinstance(value, Tensor):
                source = self._by_id.get(id(value))
                if source is not None and source not in found:
                    found.append(source)
            elif isinstance(value, list | tuple):
                found.extend(s for s in self._sources_in(tuple(value), {}) if s not in found)
        return found

    def _note_data(
        self,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        result: Any,  # noqa: ANN401
        *,
        always: bool = False,
    ) -> None:
        """Note that results stem from the data if an argument does."""
        given = pytree.tree_leaves((args, kwargs))
        if always or any(isinstance(v, Tensor) and v in self._from_data for v in given):
            for value in pytree.tree_leaves(result):
                if isinstance(value, Tensor):
                    self._from_data[value] = True


def _never(*_: object) -> bool:
    return False


def _opened(func: Callable[..., Any]) -> Callable[..., Any] | None:
    """Return a function of ``torch.nn.functional`` such that the calls inside it are seen.

    These functions first ask whether somebody watches, and if so hand themselves over as a whole.
    The same code with an answer of no goes on to what it is made of, which is then watched.
    """
    if not isinstance(func, FunctionType) or func.__globals__ is not vars(F):
        return None
    asks = ("has_torch_function", "has_torch_function_unary", "has_torch_function_variadic")
    world = {**func.__globals__, **dict.fromkeys(asks, _never)}
    opened = FunctionType(func.__code__, world, func.__name__, func.__defaults__, func.__closure__)
    opened.__kwdefaults__ = func.__kwdefaults__
    return opened
