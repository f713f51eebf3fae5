"""Influence of each pool sample on the test loss, along one direction or several at once."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import jvp, vmap

from steepest.core.memory import is_out_of_memory
from steepest.core.progress import Progress, as_progress
from steepest.errors import InputError, NonFiniteError, SteepestError
from steepest.influence import vectors
from steepest.influence.examples import Source
from steepest.influence.functional_model import (
    BATCH_SIZE,
    FirstThatWorks,
    explained,
    in_parts,
    measuring,
)
from steepest.influence.objective import Objective, SampleLoss
from steepest.influence.solution import Solution, StopWatch
from steepest.influence.vectors import Vector
from steepest.modules import batches
from steepest.modules.batches import Inputs
from steepest.tasks.base import Losses

_STEP = 1e-3
"""Of a difference quotient, as a share of the parameters' own norm."""
_NOT_TOGETHER = (RuntimeError, UserWarning)
"""Messages of torch about functions that it cannot vectorise, or only slowly."""


@dataclass(frozen=True, eq=False)
class Influences:
    """Target(x) = s · ∇L(x) of every sample.

    Attributes:
        values: [N] in double precision on the CPU. Positive: with one more such sample the test
            loss falls, and without it the test loss rises.
        loss: The loss of a sample that was differentiated.
        way: How: by forward-mode differentiation, or by difference quotients.
        note: Why not by the first; empty if so.
        seconds: How long it took.
    """

    values: Tensor
    loss: str
    way: str
    note: str
    seconds: float

    def to_table(self) -> dict[str, Any]:
        """Return everything as plain numbers and words, ready for JSON."""
        return {**vars(self), "values": self.values.tolist()}


def influence_on_test(
    model: nn.Module,
    task: Losses,
    pool: Source,
    direction: Solution | Vector,
    *,
    loss: SampleLoss = "true-label",
    batch_size: int = BATCH_SIZE,
    progress: bool | Progress = True,
) -> Influences:
    """Return s · ∇L(x) for every sample x, without any sample's gradient.

    It is the derivative of the vector of losses along s: one forward pass carries it along. Divided
    by the number n of training examples, it predicts by how much the summed test loss would rise
    if x were left out of the training set.

    Args:
        model: Any module that returns logits, or carries them in its output; left unchanged.
        task: Whose losses are meant.
        pool: N samples; with targets for ``loss="true-label"``.
        direction: s; parameters without an entry do not count.
        loss: The loss of a sample.
        batch_size: Samples in flight.
        progress: Whether to show progress.

    Raises:
        InputError: If an argument does not fit.
        NonFiniteError: If a result is NaN or infinite.
    """
    s = direction.vector if isinstance(direction, Solution) else direction
    objective = Objective(model, task, pool, layers=list(s), batch_size=batch_size, loss=loss)
    vectors.check_vector(s, objective.parameters)
    watch = StopWatch()
    ways = FirstThatWorks("forward mode", "difference quotients")
    parts: list[Tensor] = []

    def on_batch(inputs: Inputs, targets: Tensor | None) -> Tensor:
        return ways(
            lambda: _by_forward_mode(objective, inputs, targets, s),
            lambda: _by_differences(objective, inputs, targets, s),
        )

    with measuring(objective.model), as_progress(progress).task("influence", len(pool)) as step:
        for inputs, targets in objective.batches():
            parts += [found.detach() for found in in_parts(on_batch, inputs, targets)]
            step.advance(batches.count(inputs))
    values = torch.cat(parts).double().cpu()
    if not bool(torch.isfinite(values).all()):
        raise NonFiniteError("an influence is NaN or infinite: look at the model's outputs")
    name = loss if isinstance(loss, str) else getattr(loss, "__name__", "own")
    return Influences(values, name, ways.way, ways.describe(), watch.seconds())


def _by_forward_mode(
    objective: Objective, inputs: Inputs, targets: Tensor | None, s: Vector
) -> Tensor:
    def losses(parameters: Vector) -> Tensor:
        return objective.losses(objective.logits(parameters, inputs), targets)

    ordered = {name: s[name] for name in objective.parameters}
    found: Tensor = jvp(losses, (objective.parameters,), (ordered,))[1]
    return found


def _by_differences(
    objective: Objective, inputs: Inputs, targets: Tensor | None, s: Vector
) -> Tensor:
    length = vectors.norm(s)
    if not length:
        return torch.zeros(batches.count(inputs), dtype=torch.float64)
    step = _STEP * (vectors.norm(objective.parameters) or 1.0) / length
    with torch.no_grad():
        above, below = (
            objective.losses(
                objective.logits(vectors.axpy(sign * step, s, objective.parameters), inputs),
                targets,
            )
            for sign in (1.0, -1.0)
        )
    return (above - below) / (2 * step)


def influences_on_test(
    model: nn.Module,
    task: Losses,
    pool: Source,
    directions: Sequence[Solution | Vector],
    *,
    loss: SampleLoss = "true-label",
    batch_size: int = BATCH_SIZE,
    progress: bool | Progress = True,
) -> Tensor:
    """Return s_d · ∇L(x_n) for every direction and sample, [D, N] in double precision on the CPU.

    Row d is what ``influence_on_test`` returns for the direction d. All directions are carried
    along one forward pass; where a model does not allow that, they take one pass each.

    Args:
        model: Any module that returns logits, or carries them in its output; left unchanged.
        task: Whose losses are meant.
        pool: N samples; with targets for ``loss="true-label"``.
        directions: D vectors with the same entries, or solutions that hold them.
        loss: The loss of a sample.
        batch_size: Samples in flight.
        progress: Whether to show progress.

    Raises:
        InputError: If an argument does not fit.
        NonFiniteError: If a result is NaN or infinite.
    """
    if not directions:
        raise InputError("no direction is given: name at least one")
    found = [one.vector if isinstance(one, Solution) else one for one in directions]
    layers = list(found[0])
    objective = Objective(model, task, pool, layers=layers, batch_size=batch_size, loss=loss)
    for s in found:
        vectors.check_vector(s, objective.parameters)
    try:
        values = _together(objective, found, as_progress(progress))
    except _NOT_TOGETHER as error:
        if isinstance(error, SteepestError) or is_out_of_memory(error):
            raise
        each = [
            influence_on_test(
                model, task, pool, s, loss=loss, batch_size=batch_size, progress=progress
            )
            for s in found
        ]
        values = torch.stack([one.values for one in each])
    if not bool(torch.isfinite(values).all()):
        raise NonFiniteError("an influence is NaN or infinite: look at the model's outputs")
    return values


def _together(objective: Objective, directions: Sequence[Vector], progress: Progress) -> Tensor:
    stacked = {name: torch.stack([s[name] for s in directions]) for name in objective.parameters}
    parts: list[Tensor] = []

    def on_batch(inputs: Inputs, targets: Tensor | None) -> Tensor:
        def losses(parameters: Vector) -> Tensor:
            return objective.losses(objective.logits(parameters, inputs), targets)

        def along(s: Vector) -> Tensor:
            found: Tensor = jvp(losses, (objective.parameters,), (s,))[1]
            return found

        rows: Tensor = explained(lambda: vmap(along)(stacked), unless=_NOT_TOGETHER)
        return rows.detach().double().cpu()

    total = len(objective)
    with (
        warnings.catch_warnings(),
        measuring(objective.model),
        progress.task("influence", total) as step,
    ):
        # Without batching, the directions are computed one by one, with a warning.
        warnings.filterwarnings("error", "There is a performance drop", UserWarning)
        for inputs, targets in objective.batches():
            parts += in_parts(on_batch, inputs, targets)
            step.advance(batches.count(inputs))
    return torch.cat(parts, dim=1)
