"""Design by gradient norm: samples that lower the expected loss over the pool most."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from steepest.errors import InputError
from steepest.strategies.algorithms.design import greedy_design
from steepest.strategies.algorithms.distances import tiles
from steepest.strategies.base import Needs, Strategy, strategy
from steepest.strategies.batch import Batch
from steepest.strategies.choice import Choice
from steepest.strategies.feature_rows import check_width, finite_rows
from steepest.strategies.gradnorm_herding import impurity
from steepest.strategies.view import PoolView


@strategy("gradnorm-design")
@dataclass(frozen=True)
class GradnormDesign(Strategy):
    """Samples whose labels lower the expected loss over all candidates most.

    With features h brought to unit variance, z = (h, 1), predictions p, w = 1 − Σ_i p_i²,
    candidates U and labelled or chosen samples S, each choice is the largest

        score(x) = w_x · zᵀM⁻¹F M⁻¹z / (1 + w_x · zᵀM⁻¹z)

    where M = λ I + Σ_{s ∈ S} w_s z_s z_sᵀ and F = (1/|U|) Σ_{x ∈ U} w_x z zᵀ: the fall of the
    expected loss over U by the Fisher information of the last layer.

    Attributes:
        prior: λ, the weight of the prior knowledge.
    """

    prior: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (self.prior >= 1e-9 and math.isfinite(self.prior)):
            raise InputError(
                f"gradnorm-design: prior must be at least 1e-9 and finite, not {self.prior}"
            )

    @property
    def needs(self) -> Needs:
        """Features and logits of candidates and labelled samples."""
        return Needs.LOGITS | Needs.FEATURES | Needs.LABELLED

    def choose(self, pool: PoolView, k: int) -> Choice:
        """Return k samples, the one that lowers the expected loss most first."""
        rows, weights = measure_design(pool, self.name)
        known = known_weights = None
        labelled = pool.labelled
        if labelled is not None and len(labelled):
            known, known_weights = measure_design(labelled, self.name)
            check_width(known, rows, self.name)
        return design(pool, rows, weights, k, known, known_weights, prior=self.prior)

    def check(self, pool: PoolView) -> None:
        """Measure a few samples, so that errors come early."""
        pool.collect(_measure, f"trying {self.name}")


def measure_design(pool: PoolView, strategy: str) -> tuple[Tensor, Tensor]:
    """Return features [N, D] and 1 − Σ p² [N] of a pool's samples."""
    found = pool.collect(_measure, f"features for {strategy}")
    weights = finite_rows(found["weights"][:, None], pool.ids)[:, 0]
    return finite_rows(found["features"], pool.ids), weights


def design(
    pool: PoolView,
    rows: Tensor,
    weights: Tensor,
    k: int,
    known: Tensor | None,
    known_weights: Tensor | None,
    *,
    prior: float,
    taken: npt.NDArray[np.bool_] | None = None,
) -> Choice:
    """Choose k candidates by greedy design.

    Args:
        pool: The candidates, in their own order that the seed and their ids decide.
        rows: Their features [N, D].
        weights: Their 1 − Σ p² [N].
        k: How many to choose.
        known: Features of labelled samples [M, D]; None without labels.
        known_weights: Their weights [M].
        prior: λ.
        taken: Candidates that are not to be chosen [N]; the loss is over them too.
    """
    middle, scale = unit_scale(rows)
    found = greedy_design(
        design_rows(rows, middle, scale, weights).to(pool.device),
        k,
        prior,
        known=None
        if known is None or known_weights is None
        else design_rows(known.to(rows), middle, scale, known_weights),
        taken=None if taken is None else torch.from_numpy(taken),
        progress=pool.progress,
    )
    return Choice(found.positions, found.scores)


def _measure(batch: Batch) -> Mapping[str, Tensor]:
    return {"weights": impurity(batch), "features": batch.features}


def unit_scale(rows: Tensor) -> tuple[Tensor, float]:
    """Return the mean of rows [D], and the root of their mean variance."""
    # Of shares of the largest number: squares of the largest ones would be infinite.
    largest = float(rows.abs().max()) or 1.0
    parts = [rows[part] for part in tiles(len(rows), 8 * rows.shape[1])]
    middle = torch.stack([(part.double() / largest).sum(0) for part in parts]).sum(0) / len(rows)
    squares = sum(float((part.double() / largest - middle).square().sum()) for part in parts)
    return middle * largest, math.sqrt(squares / rows.numel()) * largest or 1.0


def design_rows(
    rows: Tensor, middle: Tensor, scale: float, weights: Tensor | None = None
) -> Tensor:
    """Return √w z [N, D + 1] with z = (h, 1), for features h brought to unit variance.

    Args:
        rows: Features [N, D].
        middle: Their mean over the candidates [D].
        scale: The root of their mean variance over the candidates.
        weights: w [N]; ones by default.
    """
    found = rows.new_ones(len(rows), rows.shape[1] + 1)
    for part in tiles(len(rows), 8 * rows.shape[1]):
        found[part, :-1] = ((rows[part].double() - middle) / scale).to(rows.dtype)
        if weights is not None:
            found[part] *= weights[part, None].sqrt().to(rows)
    return found
