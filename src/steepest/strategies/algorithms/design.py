"""Greedy experimental design: rows that lower the expected loss over all rows most."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from steepest.core.progress import Progress, SilentProgress
from steepest.strategies.algorithms.distances import tiles
from steepest.strategies.algorithms.picks import check_count

_ANEW = 256
"""Number of picks after which the forms are computed anew."""


@dataclass(frozen=True, eq=False)
class Design:
    """Rows that were picked one after another.

    Attributes:
        positions: Where they stand [k]; distinct.
        gains: How much each lowered the expected loss [k].
    """

    positions: list[int]
    gains: list[float]


def greedy_design(
    rows: Tensor,
    weights: Tensor,
    k: int,
    prior: float,
    *,
    known: Tensor | None = None,
    known_weights: Tensor | None = None,
    taken: Tensor | None = None,
    progress: Progress | None = None,
) -> Design:
    """Take k rows one by one, each with the largest fall of tr(F M⁻¹).

    M = λ I + Σ_s w_s z_s z_sᵀ is over the rows that are known or taken, F = (1/n) Σ_x w_x z_x z_xᵀ
    over all candidates. Taking z lowers the trace by w zᵀM⁻¹FM⁻¹z / (1 + w zᵀM⁻¹z). After each pick
    both forms are brought up to date for all rows by two products of the rows with a vector: O(n·d)
    a pick, and no matrix larger than d².

    Args:
        rows: Candidates z [N, D].
        weights: Their w [N], at least 0.
        k: How many to take.
        prior: λ, more than 0.
        known: Rows that are known from the beginning [M, D].
        known_weights: Their weights [M].
        taken: Candidates that cannot be taken [N]; the loss is over them too.
        progress: Updated after each row.

    Returns:
        The rows in the order of taking; of equal gains the first row's is taken.
    """
    check_count(k, len(rows) if taken is None else int((~taken).sum()))
    space = _Space(rows, weights, prior, known, known_weights)
    if taken is not None:
        space.taken |= taken.to(rows.device)
    found = Design([], [])
    with (progress or SilentProgress()).task("choosing", k) as step:
        for _ in range(k):
            at, gain = space.best()
            found.positions.append(at)
            found.gains.append(gain)
            space.take(at)
            step.advance()
    return found


class _Space:
    """zᵀM⁻¹z and zᵀM⁻¹FM⁻¹z of all rows, up to date."""

    def __init__(
        self,
        rows: Tensor,
        weights: Tensor,
        prior: float,
        known: Tensor | None,
        known_weights: Tensor | None,
    ) -> None:
        self.rows = rows
        self.weights = weights.to(rows.device, torch.float64)
        self.fisher = _second_moment(rows, self.weights) / len(rows)
        moment = prior * torch.eye(rows.shape[1], dtype=torch.float64, device=rows.device)
        if known is not None and known_weights is not None and len(known):
            there = known_weights.to(rows.device, torch.float64)
            moment += _second_moment(known.to(rows), there)
        self.inverse = torch.cholesky_inverse(torch.linalg.cholesky(moment))
        self.taken = torch.zeros(len(rows), dtype=torch.bool, device=rows.device)
        self._count = 0
        self._measure()

    def best(self) -> tuple[int, float]:
        """Return the row of the largest gain, and that gain."""
        gains = self.weights * self.effect / (1 + self.weights * self.spread)
        gains[self.taken] = -math.inf
        at = int(gains.argmax())
        return at, float(gains[at])

    def take(self, at: int) -> None:
        """Count a row in."""
        self.taken[at] = True
        weight, row = self.weights[at], self.rows[at].double()
        u = self.inverse @ row
        share = weight / (1 + weight * (row @ u))
        pulled = self.fisher @ u
        v = self.inverse @ pulled
        self.inverse.sub_(share * torch.outer(u, u))
        self._count += 1
        if self._count % _ANEW == 0 or self._count & (self._count - 1) == 0:
            self._measure()
            return
        along = (self.rows @ torch.stack([u, v], 1).to(self.rows)).double()
        first, second = along[:, 0], along[:, 1]
        self.spread.addcmul_(first, first, value=-float(share)).clamp_min_(0)
        change = first * (float(share**2 * (u @ pulled)) * first - 2 * float(share) * second)
        self.effect.add_(change).clamp_min_(0)

    def _measure(self) -> None:
        """Compute both forms from the matrices.

        The first picks lower them by orders of magnitude, and would leave the rounding of what
        they were.
        """
        both = self.inverse @ self.fisher @ self.inverse
        self.spread, self.effect = _forms(self.rows, self.inverse), _forms(self.rows, both)


def _second_moment(rows: Tensor, weights: Tensor) -> Tensor:
    """Return Σ w z zᵀ [D, D] in double precision."""
    total = torch.zeros(rows.shape[1], rows.shape[1], dtype=torch.float64, device=rows.device)
    for part in tiles(len(rows), 8 * rows.shape[1]):
        some = rows[part].double()
        total += some.T @ (some * weights[part, None])
    return total


def _forms(rows: Tensor, matrix: Tensor) -> Tensor:
    """Return zᵀAz of each row [N] for a matrix A with no negative eigenvalue."""
    values, vectors = torch.linalg.eigh(matrix)
    # As a sum of squares: nothing cancels, so the rows' own precision will do.
    root = (vectors * values.clamp_min(0).sqrt()).to(rows)
    parts = [
        (rows[part] @ root).double().square().sum(1) for part in tiles(len(rows), root[0].nbytes)
    ]
    return torch.cat(parts)
