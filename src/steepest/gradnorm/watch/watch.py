"""Watch a model's forward pass: every torch function that takes parameters.

Where a parameter meets the data, the function gets a copy of it whose gradient nobody collects, so
that no weight gradient of the batch is ever built, and the result gets a hook that measures the
call the moment its gradient arrives. A parameter that receives a gradient from autograd itself was
used in a way that could not be watched; it is measured sample by sample instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree
from torch.utils.weak import WeakTensorKeyDictionary

from steepest.core.memory import is_out_of_memory
from steepest.gradnorm.rules import RULES, Rule
from steepest.gradnorm.watch import cudnn
from steepest.gradnorm.watch.calls import ASKS, FACTORIES, HOST, Arguments, is_in_place, opened
from steepest.gradnorm.watch.recurrent import CELLS, LAYERS
from steepest.gradnorm.watch.samples import Samples
from steepest.gradnorm.watch.sources import Source, roots_of
from steepest.gradnorm.watch.uses import Use
from steepest.modules import batches
from steepest.modules.batches import Inputs, tensors_in
from steepest.modules.gradient_strides import straighten

_OF_ATTENTION = (
    "query", "key", "value", "attn_mask", "dropout_p", "is_causal", "scale", "enable_gqa",
)  # fmt: skip
_IMAGES = 4
"""Dimensions of the inputs of attention kernels."""

_HOOKS = {Tensor.register_hook, Tensor.register_post_accumulate_grad_hook}
_SUMS_IN_PLACE = {Tensor.add_, Tensor.sub_}
_ANY = {Tensor.any, torch.any}
_COPYING: dict[Callable[..., Any], Callable[..., Any]] = {
    torch.relu_: torch.relu, Tensor.relu_: torch.relu,
    Tensor.mul_: torch.mul, Tensor.__imul__: torch.mul,
    Tensor.div_: torch.div, Tensor.__itruediv__: torch.div,
}  # fmt: skip
"""What does the same to a copy, and keeps nothing of what was there for the backward pass."""
_REFUSED = (RuntimeError, ValueError, IndexError, NotImplementedError, TypeError)


class UnwatchableError(BaseException):
    """Something is done to parameters that cannot be watched; they have to be left alone.

    Not an ``Exception``, so that no model can take it for one of its own.
    """

    def __init__(self, roots: set[nn.Parameter]) -> None:
        super().__init__()
        self.roots = roots


class PartedError(BaseException):
    """The samples would take different ways through the model."""


class WrittenError(BaseException):
    """The model writes results into a tensor that it made for all samples alike."""


class Watch(TorchFunctionMode):
    """The forward pass of one batch, each of whose samples goes through the model alone.

    Args:
        sources: The parameters whose uses are watched.
        samples: The number of samples N.
        spread: Whether tensors that the model makes have room for every sample.
        refused: Functions that ``torch.vmap`` has refused before; added to.

    Attributes:
        uses: The uses, in order.
        asked: Whether the host got to know values that depend on the data.
        doubtful: Samples for which the model would have decided otherwise than for the batch, by
            the number of the decision.
    """

    def __init__(
        self,
        sources: Iterable[Source],
        samples: int,
        *,
        spread: bool = False,
        refused: set[Callable[..., Any]] | None = None,
    ) -> None:
        super().__init__()
        self.samples = Samples(samples)
        self._by_id = {id(source.tensor): source for source in sources}
        self._spread = spread
        self._refused = set() if refused is None else refused
        self._summaries = WeakTensorKeyDictionary()
        self._zeros: dict[tuple[torch.dtype, torch.device], Tensor] = {}
        self.uses: list[Use] = []
        self.asked = False
        self.doubtful: dict[int, set[int]] = {}
        self._asks = 0

    def run(self, model: nn.Module, inputs: Inputs, like: tuple[int, list[torch.Size]]) -> Any:  # noqa: ANN401
        """Run a model; return its output for the whole batch.

        Args:
            model: The model.
            inputs: N samples.
            like: For so many samples, it returns tensors of these shapes.
        """
        given = batches.each(inputs, lambda tensor: tensor.clone().unsqueeze(1))
        with self.samples.apart(), self._own_functions():
            apart = batches.each(given, self.samples.each_of)
            return self.samples.batch(batches.call(model, apart, copied=False, mode=self), *like)

    @contextmanager
    def _own_functions(self) -> Iterator[None]:
        """Run each ``torch.autograd.Function`` as it was written, for one sample or for all."""
        kind = torch.autograd.Function
        before = kind.__dict__["apply"]

        def apply(cls: type, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
            def run(*given: Any, **named: Any) -> Any:  # noqa: ANN401
                return before.__func__(cls, *given, **named)

            if self.samples.nested() or not self.samples.inside():
                return run(*args, **kwargs)
            if any(map(self.samples.holds, tensors_in([*args, *kwargs.values()]))):
                return self._one_by_one(run, args, kwargs, None)
            with self.samples.outside():
                return run(*args, **kwargs)

        kind.apply = classmethod(apply)  # type: ignore[method-assign,assignment]
        try:
            yield
        finally:
            kind.apply = before  # type: ignore[method-assign]

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
        self._zeros.clear()

    def leaves(self) -> list[Tensor]:
        """Return what a backward pass has to reach for every use's gradient to arrive."""
        return [*self._zeros.values(), *(source.tensor for source in self._by_id.values())]

    def __torch_function__(
        self,
        func: Callable[..., Any],
        _types: Any,  # noqa: ANN401
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401
        """Let one torch function run, and take part where parameters are concerned."""
        kwargs = kwargs or {}
        if func in ASKS or self.samples.nested():
            return func(*args, **kwargs)
        if func in HOST:
            return self._told(func, args, kwargs)
        found: list[Source] = []
        foreign: list[Tensor] = []
        if torch.is_grad_enabled():
            for tensor in tensors_in([*args, *kwargs.values()]):
                source = self._by_id.get(id(tensor))
                if source is not None:
                    found.append(source)
                elif tensor.requires_grad and not self.samples.holds(tensor):
                    foreign.append(tensor)
        if not found and not foreign:
            return self._plain(func, args, kwargs)
        return self._led_back(func, args, kwargs, list(dict.fromkeys(found)), foreign)

    def _led_back(
        self,
        func: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        found: list[Source],
        foreign: list[Tensor],
    ) -> Any:  # noqa: ANN401
        """Run a function that takes parameters, or other tensors that ask for a gradient."""
        held = any(map(self.samples.holds, tensors_in([*args, *kwargs.values()])))
        if foreign and (found or held):
            # What leads back to something else would keep gradients from arriving here.
            args, kwargs = self._cut_off(func, foreign, args, kwargs)
        if not found:
            return self._plain(func, args, kwargs)
        if func in _HOOKS or any(source.spent for source in found):
            raise UnwatchableError(roots_of(found))
        if not held:
            return self._derive(func, args, kwargs, found)
        if func not in RULES and (inner := opened(func, args, kwargs)) is not None:
            if func in LAYERS or func in CELLS:
                args = pytree.tree_map_only(Tensor, self._started, args)
            with self:
                return inner(*args, **kwargs)
        return self._use(func, args, kwargs, found)

    def _cut_off(
        self,
        func: Callable[..., Any],
        foreign: list[Tensor],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        if is_in_place(func, kwargs) or func in _HOOKS:
            raise UnwatchableError(roots_of(self.sources))
        arguments, cut = Arguments(args, kwargs), {id(tensor) for tensor in foreign}
        return arguments.rebuild([v.detach() if id(v) in cut else v for v in arguments.values])

    def _plain(
        self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Any:  # noqa: ANN401
        """Run a function without parameters."""
        rule = RULES.get(func)
        folded = None if rule is None else self._folded(rule, func, args, kwargs)
        if folded is not None:
            return self.samples.each_of(_shaped(*folded))
        if func is F.scaled_dot_product_attention:
            merged = self._attended(args, kwargs)
            if merged is not None:
                return merged
        if self._spread and func in FACTORIES:
            return self._with_samples(func(*args, **kwargs))
        if func not in self._refused:
            try:
                result = cudnn.run(func, args, kwargs)
            except _REFUSED as error:
                if is_out_of_memory(error):
                    raise
                return self._one_by_one(func, args, kwargs, error)
            if func in _ANY:
                for tensor in tensors_in(result):
                    self._summaries[tensor] = True
            return result
        return self._one_by_one(func, args, kwargs, None)

    def _attended(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Tensor | None:
        """Run attention on all samples as one larger batch, which torch's own kernels take."""
        given = dict(zip(_OF_ATTENTION, args, strict=False)) | dict(kwargs)
        mask = given.get("attn_mask")
        images: list[Tensor] = [given[name] for name in _OF_ATTENTION[:3]]
        images += [mask] if isinstance(mask, Tensor) else []
        sizes = {value.shape[0] for value in images if value.ndim == _IMAGES}
        shared = [value for value in images if not self.samples.holds(value)]
        if len(sizes) != 1 or any(value.ndim != _IMAGES for value in images):
            return None
        if any(value is not mask or value.shape[0] > 1 for value in shared):
            return None
        values = {
            name: self.samples.all_of(value).flatten(0, 1)
            for name, value in given.items()
            if self.samples.holds(value)
        }
        result = F.scaled_dot_product_attention(**given | values)
        return self.samples.each_of(result.reshape(self.samples.count, *sizes, *result.shape[1:]))

    def _with_samples(self, tensor: Tensor) -> Tensor:
        """Return a tensor with separate values for every sample."""
        if self.samples.holds(tensor) or id(tensor) in self._by_id:
            return tensor
        return self.samples.each_of(tensor.expand(self.samples.count, *tensor.shape).clone())

    def _started(self, tensor: Tensor) -> Tensor:
        """Return a state that a recurrent net starts with such that every sample has one."""
        return self._with_samples(tensor) if tensor.is_floating_point() else tensor

    def _folded(
        self,
        rule: Rule,
        func: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
    ) -> tuple[Tensor, torch.Size] | None:
        """Run a function on all samples as one larger batch, if it takes them so.

        Returns:
            What it returned, and the shape [N, ...] that this has by sample.
        """
        if rule.fold is None:
            return None
        arguments = Arguments(args, kwargs)
        held = [value for value in arguments.values if self.samples.holds(value)]
        named = arguments.named(rule.arguments, arguments.values)
        data = named.get("input")
        if len(held) != 1 or held[0] is not data or not isinstance(data, Tensor):
            return None
        values = self.samples.all_of(data)
        dims = rule.fold(named, values)
        if dims < 1:
            return None
        merged = values if dims == 1 else values.flatten(0, dims - 1)
        given, more = arguments.rebuild([merged if v is data else v for v in arguments.values])
        result = func(*given, **more)
        straighten(func, given, more, result)
        return result, torch.Size((*values.shape[:dims], *result.shape[1:]))

    def _told(
        self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Any:  # noqa: ANN401
        """Give the host a value, if it is the same for all samples."""
        given = args[0] if args else None
        if not any(map(self.samples.holds, tensors_in([args, dict(kwargs)]))):
            return func(*args, **kwargs)
        self.asked, self._asks = True, self._asks + 1
        if len(args) == 1 and not kwargs and isinstance(given, Tensor):
            values = self.samples.all_of(given).detach()
            if bool((values == values[:1]).all()):
                return func(values[0])
            if func is not Tensor.__bool__:
                raise PartedError
            # As for a whole batch: whether all are so, if not whether any. Some samples would have
            # said otherwise, and are looked at alone.
            answer = given in self._summaries
            other = (values.reshape(len(values)).bool() != answer).nonzero()[:, 0].tolist()
            self.doubtful[self._asks] = {other[0], other[len(other) // 2], other[-1]}
            return answer
        return self._one_by_one(func, args, kwargs, None)

    def _one_by_one(
        self,
        func: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        error: Exception | None,
    ) -> Any:  # noqa: ANN401
        """Run a function for one sample after the other, where torch cannot take them together."""
        arguments = Arguments(args, kwargs)
        apart = [self.samples.holds(value) for value in arguments.values]
        if error is not None and not any(apart):
            raise error
        if is_in_place(func, kwargs):
            if error is not None and args and not self.samples.holds(args[0]):
                raise WrittenError from error
            raise error or PartedError
        whole = [
            self.samples.all_of(value) if mine else value
            for value, mine in zip(arguments.values, apart, strict=True)
        ]
        rows = []
        for n in range(self.samples.count):
            values = [v[n] if mine else v for v, mine in zip(whole, apart, strict=True)]
            given, named = arguments.rebuild(values)
            try:
                with self.samples.outside():
                    rows.append(pytree.tree_flatten(cudnn.run(func, given, named)))
            except _REFUSED as again:
                raise error or again from again
        if error is not None:
            self._refused.add(func)
        if len({len(leaves) for leaves, _ in rows}) > 1:
            raise PartedError
        columns = zip(*(leaves for leaves, _ in rows), strict=True)
        joined = [self._joined(column) for column in columns]
        return pytree.tree_unflatten(joined, rows[0][1])

    def _joined(self, column: Sequence[Any]) -> Any:  # noqa: ANN401
        first = column[0]
        if not isinstance(first, Tensor):
            if any(bool(value != first) for value in column):
                raise PartedError
            return first
        if len({value.shape for value in column}) > 1:
            raise PartedError
        return self.samples.each_of(torch.stack(list(column)))

    def _derive(
        self,
        func: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        found: list[Source],
    ) -> Any:  # noqa: ANN401
        """Run a function of parameters alone; its results are sources themselves."""
        written = is_in_place(func, kwargs) or kwargs.get("inplace")
        if written:
            kwargs = self._out_of_place(func, args, kwargs, found)
            func = _COPYING.get(func, func)
        with self.samples.outside():
            result = func(*args, **kwargs)
            if written:
                with torch.no_grad():
                    found[0].tensor.copy_(result)
                for source in _line_of(found[0]):
                    source.spent = True
        if any(value is source.tensor for value in pytree.tree_leaves(result) for source in found):
            return result

        def leaf(value: Any) -> Any:  # noqa: ANN401
            if not isinstance(value, Tensor) or not value.requires_grad:
                return value
            tensor = self.samples.leaf(value)
            source = Source(tensor, None, value, found, func, len(self._by_id))
            self._by_id[id(tensor)] = source
            return tensor

        return pytree.tree_map(leaf, result)

    def _out_of_place(
        self,
        func: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        found: list[Source],
    ) -> dict[str, Any]:
        """Return arguments that let an activation write into a copy of what was made."""
        line = _line_of(found[0])
        others = [source for source in self.sources if source not in line]
        # Nothing may have taken it before, nor anything that shares its memory.
        taken = any(
            mine in other.parents or _memory(mine) == _memory(other)
            for mine in line
            for other in others
        ) or any(mine in use.sources for mine in line for use in self.uses)
        known = func in _COPYING or "inplace" in kwargs
        made = args[0] is found[0].tensor and all(mine.parameter is None for mine in line)
        if len(found) > 1 or taken or not known or not made:
            raise UnwatchableError(roots_of(found))
        return {name: value for name, value in kwargs.items() if name != "inplace"}

    def _use(
        self,
        func: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        found: list[Source],
    ) -> Any:  # noqa: ANN401
        """Run a function with copies of the parameters.

        The copies ask for a gradient, as torch takes other ways where nothing does, but nobody
        collects it, so that it is never computed.
        """
        if is_in_place(func, kwargs) and not self._may_change(func, args):
            raise UnwatchableError(roots_of(found))
        rule, samples = RULES.get(func), self.samples
        copies = {id(source.tensor): samples.leaf_of(source) for source in found}
        arguments = Arguments(args, kwargs)
        leads_back = any(map(samples.leads_back, arguments.values))
        given, named = arguments.rebuild([copies.get(id(v), v) for v in arguments.values])
        use = Use(len(self.uses), func, rule, samples, arguments, found)
        folded = None if rule is None else self._folded(rule, func, given, named)
        if folded is not None:
            result, shape = folded
            result = self._tied(result, leads_back=leads_back, alone=True)
            use.listen(result, shape, 0)
            outcome: Any = samples.each_of(_shaped(result, shape))
        else:
            outcome = self._plain(func, given, named)
            floats = [v for v in tensors_in(outcome) if v.is_floating_point() or v.is_complex()]
            if not any(samples.raw(v).requires_grad for v in floats):
                return outcome  # It asks for a type or a shape.
            if not any(map(samples.holds, floats)):
                # The data have only lent it their shape.
                swapped = Arguments(args, kwargs)
                shapes = [_hollow(v) if samples.holds(v) else v for v in swapped.values]
                args, kwargs = swapped.rebuild(shapes)
                return self._derive(func, args, kwargs, found)
            if any(v.is_complex() or not samples.holds(v) for v in floats):
                raise UnwatchableError(roots_of(found))
            alone = len(floats) == 1

            def listening(value: Tensor) -> Tensor:
                if not value.is_floating_point():
                    return value
                values = samples.raw(value)
                place = samples.place_in(value)
                values = self._tied(values, leads_back=leads_back, alone=alone)
                use.listen(values, None, place)
                return samples.each_of(values, place)

            outcome = pytree.tree_map_only(Tensor, listening, outcome)
        use.seal()
        self.uses.append(use)
        return outcome

    def _tied(self, value: Tensor, *, leads_back: bool, alone: bool) -> Tensor:
        """Return a result such that a gradient arrives at it."""
        if not leads_back:
            # The sum is no leaf, so that an in-place activation may follow.
            return value + self._zero(value)
        # One result may be made of another, whose own node would hear of both. And who writes into
        # a view goes round its node.
        return value if alone and not value._is_view() else value.clone()  # noqa: SLF001

    def _zero(self, like: Tensor) -> Tensor:
        key = (like.dtype, like.device)
        if key not in self._zeros:
            zero = torch.zeros((), dtype=like.dtype, device=like.device)
            self._zeros[key] = self.samples.leaf(zero)
        return self._zeros[key]

    def _may_change(self, func: Callable[..., Any], args: tuple[Any, ...]) -> bool:
        """Say whether what a call in place returns is sure to be what the model goes on with."""
        target = args[0]
        if func not in _SUMS_IN_PLACE or not self.samples.holds(target):
            return False
        return not self.samples.raw(target)._is_view() and self.samples.leads_back(target)  # noqa: SLF001


def _line_of(source: Source) -> list[Source]:
    """Return a source, what it is a view of, what that is a view of, and so on."""
    line = [source]
    while len(line[-1].parents) == 1 and _memory(line[-1]) == _memory(line[-1].parents[0]):
        line.append(line[-1].parents[0])
    return line


def _memory(source: Source) -> int:
    return source.tensor.untyped_storage().data_ptr()


def _hollow(tensor: Tensor) -> Tensor:
    """Return a tensor that has nothing in common with one but its kind and its shape."""
    return torch.empty(tensor.shape, dtype=tensor.dtype, device=tensor.device)


def _shaped(result: Tensor, shape: torch.Size) -> Tensor:
    """Return a result in another shape; who writes into that does not write into a view."""
    if result.shape == shape:
        return result
    return torch.ops.aten._unsafe_view.default(result, shape)  # type: ignore[no-any-return] # noqa: SLF001
