"""The registry of rules: how each torch function uses its parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from steepest.gradnorm.measure.shares import Share


@dataclass(frozen=True)
class Call:
    """One call of a torch function that takes parameters.

    Attributes:
        function: The function.
        arguments: What it was given, by name. What depends on the data is [N, ...], the samples
            before all dimensions that the function saw; the rest is as the function saw it.
        batched: The names of those arguments that depend on the data.
        wanted: The names of those arguments whose gradient is requested.
        samples: The number of samples N.
        fused: Whether hand-written kernels may be used.
    """

    function: Callable[..., Any]
    arguments: Mapping[str, Any]
    batched: frozenset[str]
    wanted: frozenset[str]
    samples: int
    fused: bool = True

    def __getitem__(self, name: str) -> Any:  # noqa: ANN401 - whatever the function takes
        return self.arguments[name]

    def get(self, name: str, default: Any = None) -> Any:  # noqa: ANN401
        """Return an argument, or its default."""
        return self.arguments.get(name, default)

    def data(self, name: str) -> Tensor:
        """Return an argument that depends on the data [N, ...].

        Raises:
            NotImplementedError: If it does not: then a rule has another case before it.
        """
        if name not in self.batched:
            raise NotImplementedError
        tensor: Tensor = self.arguments[name]
        return tensor


Measure = Callable[[Call, Tensor], Mapping[str, Share]]
"""Maps a call and the gradient of its output [N, ...] to what it adds, by name of the argument."""

Fold = Callable[[Mapping[str, Any], Tensor], int]
"""Says how many first dimensions of the data [N, ...] the function may take for one."""


@dataclass(frozen=True)
class Rule:
    """The rule for one function and its parameters.

    Attributes:
        measure: The rule itself.
        arguments: The names of the function's arguments, in order.
        fold: Set for functions that treat the first dimensions of ``input`` alike: these are run
            on all samples as if they were one larger batch.
    """

    measure: Measure
    arguments: tuple[str, ...]
    fold: Fold | None = None

    def shares(self, call: Call, g: Tensor) -> Mapping[str, Share]:
        """Return a call's contribution to the gradient of each wanted argument.

        Raises:
            NotImplementedError: If the rule does not cover the case.
        """
        found = self.measure(call, g)
        if call.wanted - found.keys():
            raise NotImplementedError  # Not where the rule expects a parameter.
        return found


RULES: dict[Callable[..., Any], Rule] = {}


def rule(
    *functions: Callable[..., Any], arguments: str, fold: Fold | None = None
) -> Callable[[Measure], Measure]:
    """Register a rule for torch functions; a second rule for one of them is an error.

    Args:
        functions: The functions, as ``torch.overrides`` sees them.
        arguments: The names of their arguments, in order.
        fold: Says which dimensions of ``input`` the function treats alike, if it does.
    """

    def file(measure: Measure) -> Measure:
        for function in functions:
            if function in RULES:
                raise ValueError(f"two rules for {function_name(function)}")
            RULES[function] = Rule(measure, tuple(arguments.split()), fold)
        return measure

    return file


def function_name(function: Callable[..., Any]) -> str:
    """Return a name for people, such as ``conv2d``."""
    name = getattr(function, "__name__", str(function))
    if name == "__get__":
        return str(getattr(getattr(function, "__self__", None), "__name__", name))
    return str(name)
