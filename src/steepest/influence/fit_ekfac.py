"""Fitting EK-FAC: second moments in a first pass, eigenvalues in a second."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from steepest.core.progress import Progress, as_progress
from steepest.errors import ModelError
from steepest.influence.blocks import Block, find_blocks, recording
from steepest.influence.drawn_labels import draw_labels, only_where_known
from steepest.influence.ekfac import EKFAC, Factors
from steepest.influence.examples import Source
from steepest.influence.measuring import BATCH_SIZE, measuring
from steepest.influence.objective import Objective
from steepest.influence.parameters import Layers
from steepest.influence.solution import StopWatch
from steepest.modules import batches
from steepest.modules.batches import Inputs
from steepest.tasks.base import Losses


def fit_ekfac(
    model: nn.Module,
    task: Losses,
    examples: Source,
    *,
    weight_decay: float = 0.0,
    layers: Layers = "all",
    batch_size: int = BATCH_SIZE,
    seed: int = 0,
    progress: bool | Progress = True,
) -> EKFAC:
    """Fit Kronecker factors of the Fisher information, and correct their eigenvalues.

    The labels are drawn from the model's predictions, as the Fisher information has it; of those of
    the examples only where there is none is used, for training knows nothing there. Covered are
    linear layers and convolutions. Normalisation, embeddings and all other parameters are not, and
    are listed in ``excluded``.

    Args:
        model: Any module that returns logits, or carries them in its output; left as found.
        task: Whose training loss is meant.
        examples: What the model was trained on, or a fixed part of it.
        weight_decay: What the optimiser's weight decay was.
        layers: Which parameters take part.
        batch_size: Examples in flight; draws do not depend on it.
        seed: Seeds the labels, keyed by the example's row.
        progress: Whether to show progress.

    Raises:
        ModelError: If the model has no layer that can be covered.
    """
    objective = Objective(
        model, task, examples, weight_decay=weight_decay, layers=layers, batch_size=batch_size
    )
    watch = StopWatch()
    fit = _Fit(objective, seed)
    with (
        measuring(objective.model),
        as_progress(progress).task("EK-FAC", 2 * len(examples)) as step,
    ):
        fit.let_gradients_flow()
        for count, uses in fit.passes():
            fit.add_moments(uses)
            step.advance(count)
        bases = fit.find_bases()
        for count, uses in fit.passes():
            fit.add_squares(bases, uses)
            step.advance(count)
    factors = tuple(fit.finish(bases))
    names = {name for f in factors for name in (f.block.weight, f.block.bias)}
    missing = tuple(name for name in objective.parameters if name not in names)
    return EKFAC(
        factors, objective.parameters, (*objective.excluded, *missing),
        objective.weight_decay, len(examples), watch.seconds(),
    )  # fmt: skip


Uses = dict[Block, list[tuple[Tensor, Tensor]]]
"""Inputs [G, N, T, I] and gradients [G, N, T, O] of each use of each layer."""

_Basis = tuple[Tensor, Tensor]


class _Fit:
    """Sums on the way to the factors."""

    def __init__(self, objective: Objective, seed: int) -> None:
        self._objective, self._seed = objective, seed
        self._blocks = find_blocks(objective.model, objective.parameters)
        self._a: dict[Block, Any] = defaultdict(int)
        self._s: dict[Block, Any] = defaultdict(int)
        self._positions: dict[Block, int] = defaultdict(int)
        self._squares: dict[Block, Any] = defaultdict(int)

    def let_gradients_flow(self) -> None:
        """Let the layers' outputs have gradients, whichever of their parameters take part."""
        for block in self._blocks:
            block.module.weight.requires_grad_(True)

    def passes(self) -> Iterator[tuple[int, Uses]]:
        """Run all examples forward and back, and yield what each batch left in the layers."""
        start = 0
        for inputs, targets in self._objective.batches():
            count = batches.count(inputs)
            yield count, self._uses(inputs, targets, start)
            start += count

    def _uses(self, inputs: Inputs, targets: Tensor | None, start: int) -> Uses:
        task = self._objective.task
        with recording(self._blocks) as record:
            logits = batches.logits_of(batches.call(self._objective.model, inputs))
        rows = range(start, start + len(logits))
        drawn, _ = draw_labels(task.distributions(logits), rows, self._seed)
        labels, positions = only_where_known(drawn, targets, task.ignored)
        if not record.uses or not logits.requires_grad:
            raise ModelError(
                "the model has no linear layer and no convolution that EK-FAC can cover: use "
                "solve_cg"
            )
        # Labels are drawn apart at each of the positions over which a loss is the mean: without
        # the root their gradients would cancel to a part of the Fisher information.
        loss = (task.training_loss(logits.double(), labels) * positions.sqrt()).sum()
        uses: Uses = {}
        for block, a, slope in record.slopes(loss):
            if a.shape[1] != len(logits):
                raise ModelError(
                    f"the layer of {block.weight!r} reads {a.shape[1]} rows for {len(logits)} "
                    "samples: EK-FAC needs the samples first; leave it out by 'layers'"
                )
            uses.setdefault(block, []).append((a, slope))
        return uses

    def add_moments(self, uses: Uses) -> None:
        """Add Σ aaᵀ and Σ δδᵀ over samples and positions."""
        for block, found in uses.items():
            for a, slope in found:
                a, slope = a.flatten(1, 2), slope.flatten(1, 2)  # noqa: PLW2901
                self._a[block] = self._a[block] + (a.mT @ a).double()
                self._s[block] = self._s[block] + (slope.mT @ slope).double()
                self._positions[block] += a.shape[1]

    def find_bases(self) -> dict[Block, _Basis]:
        """Return Q_A and Q_S of each layer that was used."""
        bases: dict[Block, _Basis] = {}
        for block, count in self._positions.items():
            _, a = torch.linalg.eigh(_symmetric(self._a[block] / count))
            _, s = torch.linalg.eigh(_symmetric(self._s[block] / count))
            bases[block] = (a, s)
        self._a.clear()
        self._s.clear()
        return bases

    def add_squares(self, bases: dict[Block, _Basis], uses: Uses) -> None:
        """Add the squares of every sample's gradient in the eigenbasis."""
        for block, found in uses.items():
            q_a, q_s = (basis[:, None] for basis in bases[block])
            turned = [(a @ q_a.to(a), slope @ q_s.to(slope)) for a, slope in found]
            if len(turned) == 1 and turned[0][0].shape[2] == 1:
                a, slope = (t[:, :, 0].double().square() for t in turned[0])
                part = slope.mT @ a
            else:
                part = _sum_of_squares(turned)
            self._squares[block] = self._squares[block] + part

    def finish(self, bases: dict[Block, _Basis]) -> Iterator[Factors]:
        """Yield the factors of each layer."""
        for block, (a, s) in bases.items():
            yield Factors(block, a, s, self._squares[block] / len(self._objective))


def _sum_of_squares(turned: list[tuple[Tensor, Tensor]]) -> Tensor:
    """Return Σ_n (Σ_t δ_t a_tᵀ)² [G, O, I], a few samples at a time."""
    groups, count, _, width = turned[0][0].shape
    entries = groups * width * turned[0][1].shape[-1]
    step = max(1, (1 << 26) // entries)
    total = torch.zeros(
        groups, turned[0][1].shape[-1], width, dtype=torch.float64, device=turned[0][0].device
    )
    for start in range(0, count, step):
        rows = slice(start, start + step)
        parts = [slope[:, rows].mT @ a[:, rows] for a, slope in turned]
        total += torch.stack(parts).sum(0).square().sum(1, dtype=torch.float64)
    return total


def _symmetric(matrix: Tensor) -> Tensor:
    return (matrix + matrix.mT) / 2
