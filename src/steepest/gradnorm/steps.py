"""What a model does with its parameters, call by call: seen once, followed ever after."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from steepest.gradnorm.calls import Arguments
from steepest.gradnorm.layout import Layout, find_layouts
from steepest.gradnorm.orders import Move
from steepest.gradnorm.rules import Rule
from steepest.gradnorm.sources import Source, roots_of

Kind = Literal["skip", "derived", "use"]
"""A call with parameters gives nothing differentiable, a new source, or results for the data."""

Shapes = list[torch.Size | None]


@dataclass
class Step:
    """One call with parameters among its arguments.

    Attributes:
        function: What was called.
        kind: What came of it.
        roots: The parameters concerned.
        given: The shapes of its arguments, None for those that are no tensors.
        returned: The shapes of its results.
        rule: Its rule; None to run it again sample by sample.
        inputs: Where the samples are in its arguments.
        outputs: Where the samples are in its results.
        choices: All that the shapes of its first result allow.
        anchors: Which of its results have to be tied to something that a gradient reaches.
        overwritten: Whether the model writes into its results.
    """

    function: Callable[..., Any]
    kind: Kind
    roots: set[nn.Parameter]
    given: Shapes = field(default_factory=list)
    returned: Shapes = field(default_factory=list)
    rule: Rule | None = None
    inputs: list[Layout | None] = field(default_factory=list)
    outputs: list[Layout | None] = field(default_factory=list)
    choices: list[Layout] = field(default_factory=list)
    anchors: list[bool] = field(default_factory=list)
    overwritten: bool = False


@dataclass(frozen=True)
class Plan:
    """What a model does with its parameters.

    Attributes:
        steps: All its calls with parameters.
        slow: The parameters that must be measured sample by sample.
        checked: Whether the order of the samples was checked; that takes two of them.
        moves: What may put samples elsewhere in a model that asks for values on its way, or picks
            by them, and might do otherwise next time; None for a model that cannot.
        coarseness: Of the numbers that it computes with.
    """

    steps: list[Step]
    slow: set[nn.Parameter]
    checked: bool
    moves: list[Move] | None = None
    coarseness: float = 0.0

    def expects(self, number: int, move: Move) -> bool:
        """Say whether this is the move with that number."""
        if self.moves is None or number >= len(self.moves):
            return False
        expected = self.moves[number]
        return move == expected and expected.numbers in {None, move.numbers}


def shapes_of(values: Any) -> Shapes:  # noqa: ANN401 - any nest of arguments
    """Return the shape of every tensor in a nest of values, None for the rest."""
    if isinstance(values, Tensor):
        return [values.shape]
    return [v.shape if isinstance(v, Tensor) else None for v in pytree.tree_leaves(values)]


def same_place(small: Step, large: Step) -> bool:
    """Say whether two passes made the same call at the same place."""
    return (
        small.function == large.function
        and small.kind == large.kind
        and len(small.returned) == len(large.returned)
        and len(small.given) == len(large.given)
    )


def locate(step: Step, n: int, large: Step, m: int) -> bool:
    """Find where the samples are in a call's arguments and results, from two batch sizes.

    Returns:
        False if that cannot be told.
    """
    step.inputs = _located(step.given, n, large.given, m)
    step.outputs = _located(step.returned, n, large.returned, m)
    pairs = zip(step.returned, large.returned, step.outputs, strict=True)
    if any(a is not None and layout is None for a, _, layout in pairs):
        return False
    first = next((i for i, shape in enumerate(step.returned) if shape is not None), None)
    if first is None:
        return False
    small_shape, large_shape = step.returned[first], large.returned[first]
    if small_shape is None or large_shape is None:
        return False
    step.choices = find_layouts(small_shape, n, large_shape, m)
    return True


def _located(small: Shapes, n: int, large: Shapes, m: int) -> list[Layout | None]:
    return [
        None if a is None or b is None else next(iter(find_layouts(a, n, b, m)), None)
        for a, b in zip(small, large, strict=True)
    ]


def settle(step: Step, layout: Layout) -> None:
    """Take one of several ways in which the samples may be laid out."""

    def settled(found: Layout | None) -> Layout | None:
        if found is None or found.repeats == 1:
            return found
        if layout.outer > 1:
            return Layout(found.dim, outer=found.repeats)
        return Layout(found.dim, inner=found.repeats)

    step.outputs = [settled(found) for found in step.outputs]
    step.inputs = [settled(found) for found in step.inputs]


def samples_in(step: Step, shapes: Sequence[torch.Size | None], samples: int) -> bool:
    """Say whether results have the shapes that the plan expects for so many samples."""
    if len(shapes) != len(step.outputs):
        return False
    for shape, layout in zip(shapes, step.outputs, strict=False):
        if shape is not None and (layout is None or not layout.fits(shape, samples)):
            return False
    return True


def is_planned(
    step: Step,
    func: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    found: list[Source],
) -> bool:
    """Say whether a call is the one that was expected at its place."""
    if step.function != func or step.roots != roots_of(found):
        return False
    for source in found:
        if source.spent:
            return False
    return step.kind != "derived" or step.given == Arguments(args, kwargs).shapes()
