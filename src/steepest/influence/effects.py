"""Influence of each pool sample on the test loss, by one derivative along s for all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import jvp

from steepest.core.progress import Progress, as_progress
from steepest.errors import NonFiniteError
from steepest.influence import vectors
from steepest.influence.examples import Source
from steepest.influence.losses import SampleLoss
from steepest.influence.measuring import BATCH_SIZE, FirstThatWorks, in_parts, measuring
from steepest.influence.objective import Objective
from steepest.influence.solution import Solution, StopWatch
from steepest.influence.vectors import Vector
from steepest.modules import batches
from steepest.modules.batches import Inputs
from steepest.tasks.base import Losses

_STEP = 1e-3
"""Of a difference quotient, as a share of the parameters' own norm."""


@dataclass(frozen=True, eq=False)
class Influences:
    """Target(x) = s · ∇L(x) of every sample.

    Attributes:
        values: [N] in double precision on the CPU. Positive: with one more such sample the test
            loss falls, and without it the test loss rises.
        loss: Which loss of a sample was differentiated.
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
        model: Any module that returns logits, or carries them in its output; left as found.
        task: Whose losses are meant.
        pool: N samples; with targets for ``loss="true-label"``.
        direction: s; parameters without an entry do not count.
        loss: Which loss of a sample.
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
