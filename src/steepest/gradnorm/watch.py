"""Watch a model's forward pass: every torch function that takes parameters.

Where a parameter meets the data, the function gets a copy of it whose gradient nobody collects, so
that no weight gradient of the batch is ever built, and the result gets a hook that measures the
call the moment its gradient arrives. A parameter that receives a gradient from autograd itself was
used in a way that could not be watched; it is measured sample by sample instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import count
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from steepest.gradnorm import cudnn, overwriting
from steepest.gradnorm.anchors import Anchors
from steepest.gradnorm.calls import ASKS, Arguments, is_in_place, opened, transforms_active
from steepest.gradnorm.orders import Orders
from steepest.gradnorm.origins import Origins
from steepest.gradnorm.reach import Reach, depends_on
from steepest.gradnorm.recurrent import LAYERS, initial_states
from steepest.gradnorm.rules import RULES
from steepest.gradnorm.sources import Source, roots_of, sources_in
from steepest.gradnorm.steps import Kind, Plan, Step, is_planned, samples_in, shapes_of
from steepest.gradnorm.uses import Use
from steepest.modules.gradient_strides import straighten
from steepest.modules.preserve import tensors_held

_HOOKS = {torch.Tensor.register_hook, torch.Tensor.register_post_accumulate_grad_hook}


class UnwatchableError(BaseException):
    """Something is done to parameters that cannot be watched; they have to be left alone.

    Not an ``Exception``, so that no model can take it for one of its own.
    """

    def __init__(self, roots: set[nn.Parameter]) -> None:
        super().__init__()
        self.roots = roots


class Watch(TorchFunctionMode):
    """The forward pass of one batch.

    Args:
        sources: The parameters whose uses are watched.
        samples: The number of samples N.
        plan: What to expect; None to record it.
        data: The batch's tensors, to tell what depends on the data.
        model: The model, whose own tensors do not.
        kinds: Corrections by step, where an earlier recording got the kind wrong.
        in_order: Whether to look for what puts samples into another order.

    Attributes:
        steps: What was recorded, or followed.
        uses: The uses, with their place among the steps.
        orders: What may have put samples into another order; not looked at if that is known.
        sources: Every watched tensor.
        derailed: Whether the model did something else than planned.
    """

    def __init__(
        self,
        sources: Iterable[Source],
        samples: int,
        plan: Plan | None = None,
        *,
        data: Iterable[Tensor] = (),
        model: nn.Module | None = None,
        kinds: Mapping[int, Kind] | None = None,
        in_order: bool = True,
    ) -> None:
        super().__init__()
        self.samples = samples
        self._plan = plan
        self._kinds = kinds or {}
        self._by_id = {id(source.tensor): source for source in sources}
        self._ordered = plan is not None and plan.moves is None
        self._in_order = in_order
        known = [] if model is None or self._ordered else tensors_held(model)
        self._origins = Origins(data, known)
        self.orders = Orders(self._origins, samples, recording=plan is None)
        self._reach = Reach()
        for source in self._by_id.values() if plan is None else ():
            self._reach.add(source.tensor)
        self._anchors = Anchors(self._reach, recording=plan is None)
        self.steps: list[Step] = []
        self.uses: list[Use] = []
        self.derailed = False

    @property
    def sources(self) -> list[Source]:
        """Every watched tensor, in the order in which they came to be."""
        return list(self._by_id.values())

    def close(self) -> None:
        """Let go of the graph."""
        for use in self.uses:
            use.close()
        self.uses.clear()
        self._by_id.clear()
        self._anchors.clear()
        self._reach = Reach()

    def leaves(self) -> list[Tensor]:
        """Return what a backward pass has to reach for every use's gradient to arrive."""
        return [*self._anchors.leaves(), *(source.tensor for source in self._by_id.values())]

    def __torch_function__(
        self,
        func: Callable[..., Any],
        _types: Any,  # noqa: ANN401
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401
        """Let one torch function run, and take part where parameters are concerned."""
        kwargs = kwargs or {}
        asks = func in ASKS or not torch.is_grad_enabled()
        found = [] if asks else sources_in([*args, *kwargs.values()], self._by_id)
        if not found or self.derailed or transforms_active():
            result = cudnn.run(func, args, kwargs)
            self._note(func, args, kwargs, result)
        elif func in _HOOKS:
            raise UnwatchableError(roots_of(found))
        elif func not in RULES and (inner := opened(func, args, kwargs)) is not None:
            if func in LAYERS:  # A state of zeros has places for the samples, like any other one.
                self._origins.tell(initial_states(args))
            with self:
                return inner(*args, **kwargs)
        elif self._plan is not None:
            result = self._follow(self._plan, func, args, dict(kwargs), found)
        else:
            result = self._record(func, args, dict(kwargs), found)
        straighten(func, args, kwargs, result)
        return result

    def _follow(
        self,
        plan: Plan,
        func: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        found: list[Source],
    ) -> Any:  # noqa: ANN401
        place = len(self.steps)
        if place >= len(plan.steps) or not is_planned(plan.steps[place], func, args, kwargs, found):
            self.derailed = True
            return func(*args, **kwargs)
        step = plan.steps[place]
        self.steps.append(step)
        result = self._followed(place, step, args, kwargs, found)
        self._note(func, args, kwargs, result, place, met_data=step.kind == "use")
        return result

    def _followed(
        self,
        place: int,
        step: Step,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        found: list[Source],
    ) -> Any:  # noqa: ANN401
        func = step.function
        if step.kind == "skip":
            return func(*args, **kwargs)
        if step.kind == "derived":
            return self._derive(place, func, args, kwargs, found)
        if overwriting.adds_in_place(func) and not samples_in(step, [args[0].shape], self.samples):
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
        roots = roots_of(found)
        if any(source.spent for source in found):
            raise UnwatchableError(roots)
        given = Arguments(args, kwargs).shapes()
        step = Step(func, kind or "use", roots, given)
        self.steps.append(step)
        if kind is None and not self._origins.meet_data((args, kwargs)):
            known = (self._by_id.values(), self.uses)
            if is_in_place(func, kwargs) and not overwriting.may_replace(func, args, found, *known):
                raise UnwatchableError(roots)
            result = self._derive(place, func, args, kwargs, found)
            made = any(source.step == place for source in self._by_id.values())
            step.kind = "derived" if made else "skip"
            step.returned = shapes_of(result)
            self._note(func, args, kwargs, result, place)
            return result
        if is_in_place(func, kwargs):
            # What is made of parameters is a leaf here, and cannot be changed.
            leaf = id(args[0]) in self._by_id
            if leaf or not overwriting.may_change_data(func, args[0], self._reach):
                raise UnwatchableError(roots)
        step.rule = RULES.get(func)
        result, use = self._call(place, step, args, kwargs, found)
        tensors = [v for v in pytree.tree_leaves(result) if isinstance(v, Tensor)]
        if any(tensor.is_complex() for tensor in tensors):
            raise UnwatchableError(roots)
        if not depends_on(tensors, use.copies()):
            step.kind = "skip"  # It asks for a type or a shape.
            result = func(*args, **kwargs)
        step.returned = shapes_of(result)
        if step.kind == "use":
            step.anchors = [not self._reach(t) for t in tensors if t.is_floating_point()]
            result = self._kept(use, result)
        self._note(func, args, kwargs, result, place, met_data=True)
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
        use = Use(place, step, self.samples, args, kwargs, found)
        given, named = use.inputs
        return cudnn.run(step.function, given, named), use

    def _derive(
        self,
        place: int,
        func: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        found: list[Source],
    ) -> Any:  # noqa: ANN401
        """Run a function of parameters alone; its results are sources themselves."""
        result = overwriting.copying(func)(*args, **kwargs)
        if any(value is source.tensor for value in pytree.tree_leaves(result) for source in found):
            return result
        overwriting.replace(func, found[0], result)

        def leaf(value: Any) -> Any:  # noqa: ANN401
            if not isinstance(value, Tensor) or not value.requires_grad:
                return value
            tensor = value.detach().requires_grad_()
            source = Source(tensor, None, value, found, func, place)
            self._by_id[id(tensor)] = source
            if self._plan is None:
                self._reach.add(tensor)
            return tensor

        return pytree.tree_map(leaf, result)

    def _kept(self, use: Use, result: Any) -> Any:  # noqa: ANN401
        self.uses.append(use)
        use.seal()
        return self._anchors.tie(use, result)

    def _note(
        self,
        func: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        result: Any,  # noqa: ANN401
        place: int | None = None,
        *,
        met_data: bool = False,
    ) -> None:
        """Note where results come from, and whether samples changed places on the way."""
        if self._ordered or self.derailed:
            return
        if not self._in_order:
            self._origins.note(func, args, kwargs, result, met_data=met_data)
            return
        place, moves = len(self.steps) if place is None else place, self.orders.moves
        before = len(moves)
        self.orders.note(func, args, kwargs, place)
        self._origins.note(func, args, kwargs, result, met_data=met_data)
        self.orders.note_made(func, result, place)
        if self._plan is not None:
            self.derailed = not all(map(self._plan.expects, count(before), moves[before:]))
