"""EK-FAC: the Fisher information as Kronecker factors per layer, and how they are fitted."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from steepest.core.progress import Progress, as_progress
from steepest.core.seeds import keyed_uniform
from steepest.errors import InputError, ModelError
from steepest.influence import vectors
from steepest.influence.examples import Source
from steepest.influence.functional_model import BATCH_SIZE, measuring
from steepest.influence.layer_factors import Block, find_blocks, recording
from steepest.influence.objective import Objective, check_amount
from steepest.influence.solution import Solution, StopWatch
from steepest.influence.vectors import Layers, Vector
from steepest.modules import batches
from steepest.modules.batches import Inputs
from steepest.tasks.base import Losses

_HEURISTIC = 0.1
"""Damping by default, as a share of a layer's mean eigenvalue."""
Uses = dict[Block, list[tuple[Tensor, Tensor]]]
"""Inputs [G, N, T, I] and gradients [G, N, T, O] of each use of each layer."""

_Basis = tuple[Tensor, Tensor]


@dataclass(frozen=True, eq=False)
class Factors:
    """The Fisher information of one layer, Q_S ⊗ Q_A · diag(Λ) · (Q_S ⊗ Q_A)ᵀ for each group.

    Attributes:
        block: The layer.
        inputs: Q_A, eigenvectors of the second moments of what goes in [G, I, I].
        slopes: Q_S, eigenvectors of the second moments of what comes back [G, O, O].
        values: Λ, the mean square of the gradient's entries in that basis [G, O, I].
    """

    block: Block
    inputs: Tensor
    slopes: Tensor
    values: Tensor

    def turned(self, matrix: Tensor) -> Tensor:
        """Return a matrix [G, O, I] in the eigenbasis."""
        return self.slopes.mT @ matrix.to(self.slopes) @ self.inputs

    def turned_back(self, matrix: Tensor) -> Tensor:
        """Return a matrix [G, O, I] of the eigenbasis as one of weights."""
        return self.slopes @ matrix @ self.inputs.mT


@dataclass(frozen=True, eq=False)
class EKFAC:
    """An approximate Fisher information of linear layers and convolutions, ready to be inverted.

    Attributes:
        factors: One for each layer.
        parameters: The parameters that take part, covered or not.
        excluded: Names of trainable parameters that are not covered; for them s is 0.
        weight_decay: Part of the objective, added to all eigenvalues.
        examples: How many examples it was fitted on.
        seconds: How long that took.
    """

    factors: tuple[Factors, ...]
    parameters: Vector
    excluded: tuple[str, ...]
    weight_decay: float
    examples: int
    seconds: float

    def solve(self, wanted: Vector, *, damping: float | None = None) -> Solution:
        """Return the inverse product, layer by layer in closed form.

        Args:
            wanted: v; entries of parameters that are not covered do not count.
            damping: λ; None takes a tenth of each layer's mean eigenvalue.

        Raises:
            InputError: If there is neither damping nor weight decay.
        """
        vectors.check_vector(wanted, self.parameters)
        watch = StopWatch()
        dampings = [self._damping(f, damping) for f in self.factors]
        if min(dampings) + self.weight_decay <= 0:
            raise InputError("EK-FAC has eigenvalues of 0: give damping above 0, or weight decay")
        found = vectors.zeros_like(wanted)
        for factors, added in zip(self.factors, dampings, strict=True):
            turned = factors.turned(factors.block.to_matrix(wanted))
            inverse = turned / (factors.values + self.weight_decay + added)
            found |= factors.block.from_matrix(factors.turned_back(inverse), wanted)
        mean = sum(dampings) / len(dampings)
        spread = f"damping {min(dampings):.3g} to {max(dampings):.3g}, by layer; "
        return Solution(
            vector=found,
            solver="ekfac",
            curvature="ekfac",
            damping=mean,
            effective_damping=mean + self.weight_decay,
            iterations=2,
            residuals=(),
            residual=None,
            converged=True,
            indefinite=False,
            smallest_eigenvalue=min(
                float(f.values.min()) + self.weight_decay + d
                for f, d in zip(self.factors, dampings, strict=True)
            ),
            seconds=self.seconds + watch.seconds(),
            excluded=self.excluded,
            note=(spread if damping is None else "") + f"factors of {self.examples} examples",
        )

    def product(self, vector: Vector, *, damping: float = 0.0) -> Vector:
        """Return the approximate matrix, damped, times a vector; 0 where it covers nothing."""
        vectors.check_vector(vector, self.parameters)
        found = vectors.zeros_like(vector)
        for factors in self.factors:
            turned = factors.turned(factors.block.to_matrix(vector))
            product = turned * (factors.values + self.weight_decay + damping)
            found |= factors.block.from_matrix(factors.turned_back(product), vector)
        return found

    def _damping(self, factors: Factors, damping: float | None) -> float:
        if damping is None:
            return _HEURISTIC * float(factors.values.mean())
        return check_amount("damping", damping)


def draw_labels(logits: Tensor, rows: Sequence[int], seed: int) -> tuple[Tensor, int]:
    """Draw one label for each position of each sample.

    Args:
        logits: Of distributions [N, C, ...].
        rows: The samples' own numbers [N], by which draws are keyed.
        seed: Seeds the draws.

    Returns:
        Class indices [N, ...], and the number of positions of a sample.
    """
    positions = math.prod(logits.shape[2:])
    uniform = keyed_uniform(seed, "labels of the Fisher information", rows, columns=positions)
    shares = logits.detach().double().softmax(1)
    up_to = shares.reshape(*logits.shape[:2], positions).cumsum(1)
    draws = torch.from_numpy(uniform).to(up_to)
    labels = (up_to <= draws[:, None] * up_to[:, -1:]).sum(1).clamp_max(logits.shape[1] - 1)
    return labels.reshape(len(logits), *logits.shape[2:]), positions


def only_where_known(
    labels: Tensor, targets: Tensor | None, ignored: int | None
) -> tuple[Tensor, Tensor]:
    """Leave out the positions that training leaves out.

    Args:
        labels: Drawn class indices [N, ...].
        targets: Labels of the samples [N, ...]; None if unknown.
        ignored: The target where no class is known; None if every position has one.

    Returns:
        Class indices with ``ignored`` where the targets have it [N, ...], and the number of
        positions of each sample that count [N].
    """
    if targets is None or ignored is None:
        positions = math.prod(labels.shape[1:])
        return labels, torch.full((len(labels),), positions, device=labels.device)
    known = targets != ignored
    return labels.masked_fill(~known, ignored), known.flatten(1).sum(1)


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
        model: Any module that returns logits, or carries them in its output; left unchanged.
        task: Whose training loss is meant.
        examples: The model's training data, or a fixed part of it.
        weight_decay: The optimiser's weight decay.
        layers: The parameters that take part.
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
