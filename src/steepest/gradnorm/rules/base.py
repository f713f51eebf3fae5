"""The registry of rules: how each torch function uses its parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor

from steepest.gradnorm.layout import Layout
from steepest.gradnorm.shares import Share

SamplesAt = Literal["first", "anywhere"]
"""Where a rule wants the samples: along dimension 0 (several places each, if need be), or not."""


@dataclass(frozen=True)
class Call:
    """One call of a torch function that takes parameters.

    Attributes:
        function: The function.
        arguments: What it was given, by name.
        wanted: The names of those arguments whose gradient is asked for.
        layout: Where the samples are in its output, and in its data.
        samples: The number of samples N.
        fused: Whether hand-written kernels may be used.
    """

    function: Callable[..., Any]
    arguments: Mapping[str, Any]
    wanted: frozenset[str]
    layout: Layout
    samples: int
    fused: bool = True

    def __getitem__(self, name: str) -> Any:  # noqa: ANN401 - whatever the function takes
        return self.arguments[name]

    def get(self, name: str, default: Any = None) -> Any:  # noqa: ANN401
        """Return an argument, or what the function takes it to be."""
        return self.arguments.get(name, default)

    def samples_first(self, tensor: Tensor) -> Tensor:
        """Bring the samples to the front: [N, ..., places of a sample, ...]."""
        return self.layout.first(tensor, self.samples)


Measure = Callable[[Call, Tensor], Mapping[str, Share]]
"""Maps a call and the gradient of its output to what it adds, by name of the argument."""


@dataclass(frozen=True)
class Rows:
    """Places of a call's result, each made of the same place of the data and of nothing else there.

    Attributes:
        data: The arguments that have those places along their first dimensions, by name.
        dims: How many of the first dimensions these are.
    """

    data: Mapping[str, Any]
    dims: int

    def fit(self, g: Tensor) -> bool:
        """Say whether the data have those places of a result's gradient."""
        places = g.shape[: self.dims]
        fit = (isinstance(t, Tensor) and t.shape[: self.dims] == places for t in self.data.values())
        return self.dims > 0 and all(fit)


FindRows = Callable[[Call, Tensor], Rows]
"""Tells the rows of a call from the gradient of its output; raises NotImplementedError for none."""


@dataclass(frozen=True)
class Rule:
    """How one function uses its parameters.

    Attributes:
        measure: The rule itself.
        arguments: The names of the function's arguments, in order.
        samples: Where it wants the samples.
        rows: Tells what can be put into another order, sample by sample; None if nothing can.
    """

    measure: Measure
    arguments: tuple[str, ...]
    samples: SamplesAt
    rows: FindRows | None = None

    def shares(self, call: Call, g: Tensor) -> Mapping[str, Share]:
        """Return what a call adds to the gradient of each argument that is wanted.

        Raises:
            NotImplementedError: If the rule does not cover the case.
        """
        found = self.measure(call, g)
        if call.wanted - found.keys():
            raise NotImplementedError  # Not where the rule expects a parameter.
        return found


RULES: dict[Callable[..., Any], Rule] = {}


def rule(
    *functions: Callable[..., Any],
    arguments: str,
    samples: SamplesAt = "anywhere",
    rows: FindRows | None = None,
) -> Callable[[Measure], Measure]:
    """Register a rule for torch functions; a second rule for one of them is an error.

    Args:
        functions: The functions, as ``torch.overrides`` sees them.
        arguments: The names of their arguments, in order.
        samples: ``"first"`` if the rule needs the samples along dimension 0.
        rows: Tells the rows of a call, for models that mix up the samples of a batch.
    """

    def file(measure: Measure) -> Measure:
        for function in functions:
            if function in RULES:
                raise ValueError(f"two rules for {function_name(function)}")
            RULES[function] = Rule(measure, tuple(arguments.split()), samples, rows)
        return measure

    return file


def all_but_last(*names: str) -> FindRows:
    """Take every dimension but the last one for rows, as products with a matrix do."""
    return lambda call, g: Rows({name: call[name] for name in names}, g.ndim - 1)


def along_first(call: Call, _: Tensor) -> Rows:
    """Take the first dimension for rows, as what sees images does."""
    return Rows({"input": call["input"]}, 1)


def function_name(function: Callable[..., Any]) -> str:
    """Return a name for people, such as ``conv2d``."""
    name = getattr(function, "__name__", str(function))
    if name == "__get__":
        return str(getattr(getattr(function, "__self__", None), "__name__", name))
    return str(name)
