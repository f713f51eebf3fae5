"""Where the tensors of a forward pass come from: from the data, or from nothing that changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from steepest.gradnorm.calls import is_in_place
from steepest.modules.batches import tensors_in

_RANDOM = {
    "rand", "randn", "randint", "randperm", "rand_like", "randn_like", "randint_like", "bernoulli",
    "multinomial", "normal", "poisson", "uniform", "random", "dropout", "exponential",
}  # fmt: skip
_LIKE_THE_FIRST = {"type_as", "to", "expand_as", "view_as", "reshape_as", "broadcast_to"}
_SHAPE_ALONE = {
    "zeros_like", "ones_like", "full_like", "empty_like", "new_zeros", "new_ones", "new_full",
    "new_empty", "new_tensor",
}  # fmt: skip
_ORDER_KEPT = {
    "view", "reshape", "unsqueeze", "squeeze", "flatten", "expand", "expand_as", "to", "long",
    "int", "type_as", "contiguous", "clone", "detach", "add", "mul", "__radd__", "__rmul__",
    "view_as", "repeat", "cpu", "cuda",
}  # fmt: skip


def plain_name(func: Callable[..., Any]) -> str:
    """Return what a function does, by name: the same in place or not, of any overload."""
    name = str(getattr(func, "__name__", "")).split(".")[0]
    return name if name.endswith("__") else name.rstrip("_")


class Origins:
    """Knows of every tensor seen so far whether it depends on the data.

    What was never seen, such as the result of a compiled function, counts as data where its values
    matter.

    Args:
        data: The batch.
        constants: What the model comes with: parameters, buffers and the like.
    """

    def __init__(self, data: Iterable[Tensor], constants: Iterable[Tensor]) -> None:
        self._from_data = WeakTensorKeyDictionary()
        self.tell(data)
        # True for what counts up or belongs to the model: no value on the host had a say in it.
        self._fixed = WeakTensorKeyDictionary()
        for tensor in constants:
            self._fixed[tensor] = True
        self._varied = WeakTensorKeyDictionary()

    def tell(self, tensors: Iterable[Tensor]) -> None:
        """Count tensors among the data: they have places for its samples."""
        for tensor in tensors:
            self._from_data[tensor] = True

    def stem_from_data(self, values: Any) -> bool:  # noqa: ANN401
        """Say whether some tensor in a nest of values was made of the data."""
        return any(tensor in self._from_data for tensor in tensors_in(values))

    def meet_data(self, values: Any) -> bool:  # noqa: ANN401
        """Say the same but of single whole numbers: these may tell which, but not of whom."""
        found = tensors_in(values)
        return self.stem_from_data([t for t in found if t.ndim or t.is_floating_point()])

    def vary(self, values: Any) -> bool:  # noqa: ANN401
        """Say whether the values of some tensor may be others for another batch."""
        return not all(tensor in self._fixed for tensor in tensors_in(values))

    def are_new(self, values: Any) -> bool:  # noqa: ANN401
        """Say whether some tensor was made where nobody could see it."""
        known = (self._from_data, self._fixed, self._varied)
        return any(t.ndim and not any(t in found for found in known) for t in tensors_in(values))

    def are_steady(self, values: Any) -> bool:  # noqa: ANN401
        """Say whether all are tensors that count up, or constants of the model."""
        found = tensors_in(values)
        return bool(found) and all(t in self._fixed and self._fixed[t] for t in found)

    def note(
        self,
        func: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        result: Any,  # noqa: ANN401
        *,
        met_data: bool = False,
    ) -> None:
        """Note where the results of a call come from.

        Args:
            func: What was called.
            args: Its positional arguments.
            kwargs: Its named arguments.
            result: What it returned.
            met_data: Whether it is known to depend on the data.
        """
        changed = tensors_in(result)
        if is_in_place(func, kwargs) and args and isinstance(args[0], Tensor):
            changed.append(args[0])
            if args[0]._base is not None:  # noqa: SLF001 - the whole of which this is a part
                changed.append(args[0]._base)  # noqa: SLF001
        if not changed:
            return
        name, given = plain_name(func), (args, dict(kwargs))
        from_data = met_data or self.stem_from_data(given)
        fixed = not met_data and name not in _RANDOM and self._is_fixed(name, args, given)
        steady = fixed and self._is_steady(name, args, given)
        for tensor in changed:
            if from_data:
                self._from_data[tensor] = True
            if fixed:
                self._fixed[tensor] = steady
                continue
            self._varied[tensor] = True
            if tensor in self._fixed:
                del self._fixed[tensor]

    def _is_fixed(self, name: str, args: tuple[Any, ...], given: Any) -> bool:  # noqa: ANN401
        if name in _SHAPE_ALONE:
            return not self.vary(args[1:])
        return not self.vary(args[:1] if name in _LIKE_THE_FIRST else given)

    def _is_steady(self, name: str, args: tuple[Any, ...], given: Any) -> bool:  # noqa: ANN401
        """Say whether values on the host had no say in a result that is fixed."""
        if name == "arange":
            step = given[1].get("step", args[2] if len(args) > 2 else 1)
            return isinstance(step, int) and step > 0
        if name == "__getitem__":
            items = args[1] if isinstance(args[1], tuple) else (args[1],)
            whole = all(i is None or i is ... or isinstance(i, slice) for i in items)
            return whole and self.are_steady(args[:1])
        kept = name in _ORDER_KEPT or name == "__get__"
        return kept and self.are_steady(args[:1] if name in _LIKE_THE_FIRST else given)
