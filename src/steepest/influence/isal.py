"""What influence-based selection (ISAL) needs: a direction s, and scores without labels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from steepest.errors import InputError
from steepest.influence.cg import solve_cg
from steepest.influence.effects import influence_on_test
from steepest.influence.examples import Source
from steepest.influence.gauss_newton import gauss_newton
from steepest.influence.measuring import BATCH_SIZE
from steepest.influence.objective import summed_gradient
from steepest.influence.parameters import Layers
from steepest.influence.solution import Solution
from steepest.progress import Progress
from steepest.seeds import SampleId, keyed_uniform
from steepest.tasks.base import Losses


def hold_out(
    ids: Sequence[SampleId], *, share: float = 0.2, seed: int = 0
) -> tuple[Tensor, Tensor]:
    """Split labelled samples into those to train on and those to hold out.

    A sample's part follows from draws keyed by id: as many as the share says, and at least one on
    either side, whatever the order.

    Args:
        ids: The labelled samples [N].
        share: Of them to hold out.
        seed: Seeds the draws.

    Returns:
        Rows to train on and rows held out, each in ascending order.

    Raises:
        InputError: If there are fewer than two samples, or the share is not between 0 and 1.
    """
    if len(ids) < 2 or not 0 < share < 1:
        raise InputError(
            f"{len(ids)} labelled samples with a share of {share} to hold out: give at least two, "
            "and a share between 0 and 1"
        )
    count = min(len(ids) - 1, max(1, round(share * len(ids))))
    order = np.argsort(keyed_uniform(seed, "hold out", ids)[:, 0], kind="stable")
    held = torch.from_numpy(np.sort(order[:count]))
    return torch.from_numpy(np.sort(order[count:])), held


def isal_direction(
    model: nn.Module,
    task: Losses,
    train: Source,
    validation: Source,
    *,
    damping: float = 1e-2,
    weight_decay: float = 0.0,
    layers: Layers = "no-vectors",
    tolerance: float = 1e-3,
    most_iterations: int = 100,
    batch_size: int = BATCH_SIZE,
    progress: bool | Progress = True,
) -> Solution:
    """Return s = (G + λI)⁻¹ Σ_j ∇L(x_j) over labelled examples that were held out.

    The published code takes the test set for the gradient, and so much damping that the curvature
    does not count; here the labels are part of the budget, and λ is what is said.

    Args:
        model: Any module that returns logits, or carries them in its output; left as found.
        task: Whose training loss is meant.
        train: The labelled examples whose curvature counts.
        validation: Those held out.
        damping: λ.
        weight_decay: What the optimiser's weight decay was.
        layers: Which parameters take part; by default all but one-dimensional ones.
        tolerance: As for ``solve_cg``.
        most_iterations: As for ``solve_cg``.
        batch_size: Examples in flight.
        progress: Whether to show progress.
    """
    curvature = gauss_newton(
        model, task, train, weight_decay=weight_decay, layers=layers, batch_size=batch_size
    )
    wanted = summed_gradient(model, task, validation, layers=layers, batch_size=batch_size)
    return solve_cg(
        curvature, wanted, damping=damping, tolerance=tolerance,
        most_iterations=most_iterations, progress=progress,
    )  # fmt: skip


def isal_scores(
    model: nn.Module,
    task: Losses,
    pool: Source,
    direction: Solution,
    *,
    batch_size: int = BATCH_SIZE,
    progress: bool | Progress = True,
) -> Tensor:
    """Return s · ∇L(x, ŷ) with the model's own label ŷ for every sample [N]; highest first.

    The larger it is, the more the loss on the held-out examples is expected to fall.

    Args:
        model: The model that the direction belongs to; left as found.
        task: Whose training loss is meant.
        pool: N samples; targets are not looked at.
        direction: From ``isal_direction``.
        batch_size: Samples in flight.
        progress: Whether to show progress.
    """
    return influence_on_test(
        model, task, pool, direction, loss="pseudo-label", batch_size=batch_size,
        progress=progress,
    ).values  # fmt: skip
