"""ISAL: samples whose label is expected to help most, by influence (Liu and others, 2021)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from steepest.errors import InputError, ModelError
from steepest.influence.cg import solve_cg
from steepest.influence.curvature import gauss_newton
from steepest.influence.effects import influence_on_test
from steepest.influence.ekfac import fit_ekfac
from steepest.influence.examples import Examples, hold_out
from steepest.influence.last_layer import (
    check_last_layer,
    last_layer_parameters,
    solve_last_layer,
)
from steepest.influence.lissa import solve_lissa
from steepest.influence.objective import summed_gradient
from steepest.influence.solution import Solution
from steepest.influence.vectors import choose_parameters
from steepest.modules.batches import Inputs, tensors_of
from steepest.strategies.base import Needs, Scorer, Strategy, strategy
from steepest.strategies.batch import Batch
from steepest.strategies.target_classes import check_targets
from steepest.strategies.view import PoolView

Solver = Literal["cg", "lissa", "ekfac", "last-layer"]

_STEPS = {"cg": 100, "lissa": 1000}
_LISSA_BATCH = 64
_SMALL_NUMBERS = 4096


@strategy("isal")
@dataclass(frozen=True)
class Isal(Scorer):
    """Influence on held-out labelled samples: score(x) = s · ∇_θ CE(x, ŷ).

    s = (G + λI)⁻¹ Σ_j ∇_θ CE(x_j, y_j) over a part of the labelled samples that is held out; G is
    the Gauss–Newton matrix of the training loss over the labelled ones, and ŷ the model's own
    label of x. To first order the score is by how much the held-out samples' loss falls when x is
    learnt with the label ŷ. One linear system is solved for all x, and one forward pass carries
    its solution to each of them. For dense outputs losses are means over positions.

    The published code holds nothing out: it takes the test set. Its damping of 0.01 is multiplied
    by its scale of 10⁴, and next to a λ of 100 the curvature does not count. Here λ is what is
    said; ``damping=100`` is the published choice.

    Attributes:
        share: Of the labelled samples, to hold out. An experiment trains its model on all of
            them, these included, so that their gradients are small.
        left_out: Whether the model was trained without them, as ``influence.hold_out`` with the
            same share and seed finds them; then G is over the others alone.
        damping: λ, the effective one, in every solver.
        solver: ``"cg"``; ``"lissa"``, 64 samples at a time; ``"ekfac"``, which covers linear
            layers and convolutions; or ``"last-layer"``, exact for that layer and its bias.
        steps: At most so many of CG's or LiSSA's; by default 100 and 1000.
        weight_decay: The optimiser's, which is a part of G.
        layers: ``"no-vectors"``, all but biases and normalisation, or ``"all"``.
    """

    needs: ClassVar[Needs] = Needs.LOGITS | Needs.LABELLED | Needs.TARGETS

    share: float = 0.2
    left_out: bool = False
    damping: float = 1e-2
    solver: Solver = "cg"
    steps: int | None = None
    weight_decay: float = 0.0
    layers: Literal["no-vectors", "all"] = "no-vectors"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.share < 1:
            raise InputError(f"isal: share must be between 0 and 1, not {self.share}")
        if not 0 < self.damping < float("inf"):
            raise InputError(f"isal: damping must be more than 0, not {self.damping}")
        if not 0 <= self.weight_decay < float("inf"):
            raise InputError(f"isal: weight_decay must be at least 0, not {self.weight_decay}")
        if self.steps is not None and self.steps < 1:
            raise InputError(f"isal: steps must be at least 1, not {self.steps}")

    def prepare(self, pool: PoolView) -> Solution:
        """Solve for s.

        Raises:
            InputError: If there are no two labelled samples with targets, or a target is none of
                the classes.
        """
        labelled = self._labelled(pool)
        kept, held = hold_out(labelled.ids, share=self.share, seed=pool.seed)
        every = torch.arange(len(labelled))
        return self._solve(
            pool,
            _Labelled(labelled, kept if self.left_out else every),
            _Labelled(labelled, held),
        )

    def score(self, batch: Batch) -> Tensor:
        """Return influences [N]."""
        direction: Solution = batch.prepared
        finite = batch.logits.flatten(1).isfinite().all(1)
        if not bool(finite.all()):
            return torch.where(finite, 0.0, torch.nan)
        return influence_on_test(
            batch.model,
            batch.task,
            Examples(batch.inputs),
            direction,
            loss="pseudo-label",
            batch_size=len(batch),
            progress=False,
        ).values

    def check(self, pool: PoolView) -> None:
        """Look whether there are parameters to take part; nothing is labelled yet."""
        Strategy.check(self, pool)
        choose_parameters(pool.model, self.layers)
        if self.solver == "last-layer":
            try:
                check_last_layer(pool.model, Examples(pool.load(range(min(2, len(pool))))))
            except ModelError as error:
                raise ModelError(
                    "isal: solver='last-layer' takes logits straight from a linear layer on "
                    "[N, D], which label maps have not: use solver='cg'"
                ) from error

    def _labelled(self, pool: PoolView) -> PoolView:
        labelled = pool.labelled
        targets = pool.support.targets
        if labelled is None or len(labelled) < 2 or any(i not in targets for i in labelled.ids):
            raise InputError(
                "isal asks what helps labelled samples: give two or more by --labelled FILE with "
                "id,label, or in Python support=Support(targets={id: target, …}); or begin with "
                "'random'"
            )
        check_targets(labelled, self.name)
        return labelled

    def _solve(self, pool: PoolView, train: _Labelled, held: _Labelled) -> Solution:
        model, task, shown = pool.model, pool.task, pool.progress
        size = _size_for(held)
        if self.solver == "last-layer":
            last = last_layer_parameters(model, held)
            wanted = summed_gradient(model, task, held, layers=last, batch_size=size)
            return solve_last_layer(
                model, task, train, wanted, damping=self.damping, weight_decay=self.weight_decay,
                batch_size=size, progress=shown,
            )  # fmt: skip
        wanted = summed_gradient(model, task, held, layers=self.layers, batch_size=size)
        if self.solver == "ekfac":
            fitted = fit_ekfac(
                model, task, train, weight_decay=self.weight_decay, layers=self.layers,
                batch_size=size, seed=pool.seed, progress=shown,
            )  # fmt: skip
            return fitted.solve(wanted, damping=self.damping)
        curvature = gauss_newton(
            model, task, train, weight_decay=self.weight_decay, layers=self.layers, batch_size=size
        )
        steps = self.steps or _STEPS[self.solver]
        if self.solver == "cg":
            return solve_cg(
                curvature, wanted, damping=self.damping, most_iterations=steps, progress=shown
            )
        return solve_lissa(
            curvature, wanted, damping=self.damping, depth=steps, batch=_LISSA_BATCH,
            seed=pool.seed, progress=shown,
        )  # fmt: skip


def _size_for(examples: _Labelled) -> int:
    """Return how many samples to solve with at a time.

    Rounding must not depend on the batch size that the user likes best; so it is 256, and 64 for
    larger images than those of CIFAR, of which more may fill a CPU's memory.
    """
    inputs, _ = next(examples.batches(1))
    return 256 if sum(t.numel() for t in tensors_of(inputs)) <= _SMALL_NUMBERS else 64


class _Labelled:
    """Some of the labelled samples with their targets, read as often as needed.

    Args:
        view: All labelled samples.
        rows: Which of them.
    """

    def __init__(self, view: PoolView, rows: Tensor) -> None:
        self._view = view
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def batches(self, size: int, rows: Tensor | None = None) -> Iterator[tuple[Inputs, Tensor]]:
        """Yield all samples, or those of some rows, in order."""
        wanted = self._rows if rows is None else self._rows[rows.cpu()]
        for part in torch.split(wanted, size):
            positions = part.tolist()
            ids = [self._view.ids[p] for p in positions]
            yield self._view.load(positions), self._view.support.targets_of(ids)
