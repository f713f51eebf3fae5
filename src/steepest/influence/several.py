"""Influence along several directions at once: the pass through the model itself is shared."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.func import jvp, vmap

from steepest.core.memory import is_out_of_memory
from steepest.core.progress import Progress, as_progress
from steepest.errors import InputError, NonFiniteError, SteepestError
from steepest.influence import vectors
from steepest.influence.effects import influence_on_test
from steepest.influence.examples import Source
from steepest.influence.losses import SampleLoss
from steepest.influence.measuring import BATCH_SIZE, explained, in_parts, measuring
from steepest.influence.objective import Objective
from steepest.influence.solution import Solution
from steepest.influence.vectors import Vector
from steepest.modules import batches
from steepest.modules.batches import Inputs
from steepest.tasks.base import Losses

_NOT_TOGETHER = (RuntimeError, UserWarning)
"""Messages of torch about functions that it cannot vectorise, or only slowly."""


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
        model: Any module that returns logits, or carries them in its output; left as found.
        task: Whose losses are meant.
        pool: N samples; with targets for ``loss="true-label"``.
        directions: D vectors with the same entries, or solutions that hold them.
        loss: Which loss of a sample.
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
        # What cannot be batched is computed direction by direction after all, with a warning.
        warnings.filterwarnings("error", "There is a performance drop", UserWarning)
        for inputs, targets in objective.batches():
            parts += in_parts(on_batch, inputs, targets)
            step.advance(batches.count(inputs))
    return torch.cat(parts, dim=1)
