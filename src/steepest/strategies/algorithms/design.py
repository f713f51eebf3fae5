"""Greedy experimental design: samples that lower the expected loss over all samples most."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from steepest.core.progress import Progress, SilentProgress
from steepest.strategies.algorithms.distances import tiles
from steepest.strategies.algorithms.picks import Picks, check_count

_FALL = 16.0
_STEPS = 512
"""After such a fall of the loss, or so many picks, the forms are computed from the matrices."""


def greedy_design(
    factors: Tensor,
    k: int,
    prior: float,
    *,
    known: Tensor | None = None,
    taken: Tensor | None = None,
    spare: int = 0,
    progress: Progress | None = None,
) -> Picks:
    """Take k samples one by one, each with the largest fall of tr(F M⁻¹).

    The Fisher information of a sample is VᵀV for its factor V, one row v for each of C directions.
    M = λ I + Σ_s V_sᵀV_s is over the samples that are known or taken, F = (1/n) Σ_x V_xᵀV_x over
    all candidates. Taking x lowers the trace by tr((I + V M⁻¹Vᵀ)⁻¹ V M⁻¹F M⁻¹Vᵀ). After each pick
    both forms are updated for all samples by two products of the factors with a matrix [D, C]:
    O(n·C²·D) a pick, and no matrix larger than D².

    Args:
        factors: Of the candidates [N, C, D], or [N, D] for one direction each.
        k: How many to take.
        prior: λ, more than 0.
        known: Factors of samples that are known from the beginning [M, C, D] or [M, D].
        taken: Candidates that cannot be taken [N]; the loss is over them too.
        spare: So many more are taken first; then those whose loss costs least are given back.
        progress: Updated after each pick.

    Returns:
        The samples in the order of taking, with their gains; of equal gains the first is taken.
    """
    free = len(factors) if taken is None else int((~taken).sum())
    check_count(k, free)
    spare = min(spare, free - k)
    space = _Space(_three(factors), prior, None if known is None else _three(known))
    if taken is not None:
        space.out |= taken.to(factors.device)
    positions, gains = [], []
    with (progress or SilentProgress()).task("choosing", k + 2 * spare) as step:
        for _ in range(k + spare):
            at, gain = space.best()
            positions.append(at)
            gains.append(gain)
            space.move(at)
            step.advance()
        kept = _give_back(space, positions, spare, step.advance) if spare else range(k)
    return Picks.of([positions[at] for at in kept], [gains[at] for at in kept])


def _give_back(
    space: _Space, positions: list[int], count: int, advance: Callable[[], None]
) -> list[int]:
    """Return which of the picks remain if those that raise the loss least are given back."""
    space.keep(positions)
    for _ in range(count):
        space.move(space.cheapest(), sign=-1)
        advance()
    return (~space.out).nonzero()[:, 0].tolist()


class _Space:
    """V M⁻¹Vᵀ and V M⁻¹F M⁻¹Vᵀ of all samples [N, C, C], updated after each pick."""

    def __init__(self, factors: Tensor, prior: float, known: Tensor | None) -> None:
        self.factors = factors
        width = factors.shape[2]
        self.fisher = _second_moment(factors) / len(factors)
        values, vectors = torch.linalg.eigh(self.fisher)
        self._root = vectors * values.clamp_min(0).sqrt()
        self.moment = prior * torch.eye(width, dtype=torch.float64, device=factors.device)
        if known is not None and len(known):
            self.moment += _second_moment(known.to(factors))
        self.out = torch.zeros(len(factors), dtype=torch.bool, device=factors.device)
        self._equal = 64 * torch.finfo(factors.dtype).eps
        self._measure()

    def keep(self, positions: list[int]) -> None:
        """Keep these samples alone, none of them out, in double precision."""
        self.factors = self.factors[torch.tensor(positions, device=self.out.device)].double()
        self.out = self.out.new_zeros(len(positions))
        self._measure()

    def best(self) -> tuple[int, float]:
        """Return the sample whose taking lowers the loss most, and by how much."""
        gains = _traces(self.spread, self.effect)
        gains[self.out] = -math.inf
        # The same sample in another batch rounds differently: of equal gains the first.
        highest = gains.max()
        at = int((gains >= highest - self._equal * highest.abs()).nonzero()[0])
        return at, float(gains[at])

    def cheapest(self) -> int:
        """Return the sample whose giving back raises the loss least."""
        losses = _traces(-self.spread, self.effect)
        losses[self.out] = math.inf
        lowest = losses.min()
        return int((losses <= lowest + self._equal * lowest.abs()).nonzero()[-1])

    def move(self, at: int, sign: int = 1) -> None:
        """Take a sample, or with a sign of −1 give it back; it is out from now on."""
        self.out[at] = True
        factor = self.factors[at].double()
        self.moment.addmm_(factor.T, factor, alpha=sign)
        u = self.inverse @ factor.T
        inner = torch.eye(len(factor), dtype=u.dtype, device=u.device) + sign * (factor @ u)
        # M⁻¹ ∓ u u', with u' = u (I ± V u)⁻¹: by its root both updates are sums of squares.
        u = torch.linalg.solve_triangular(torch.linalg.cholesky(inner), u.T, upper=False).T
        pulled = self.fisher @ u
        v = self.inverse @ pulled - 0.5 * sign * u @ (u.T @ pulled)
        self.inverse.addmm_(u, u.T, alpha=-sign)
        self._count += 1
        if self._count == _STEPS or self._first > _FALL * float(self.effect.sum()):
            self._measure()
            return
        rows = self.factors.flatten(0, 1)
        if len(factor) == 1:
            first, second = _two_products(rows, u.to(rows), v.to(rows))
        else:
            both = (rows @ torch.cat([u, v], 1).to(rows)).double()
            first, second = both.view(*self.factors.shape[:2], 2, -1).unbind(2)
        _add_products(self.spread, first, first, -sign)
        _add_products(self.effect, first, second, -sign)
        _add_products(self.effect, second, first, -sign)

    def _measure(self) -> None:
        """Compute both forms from the matrices.

        The first picks lower them by orders of magnitude: what is left would be the rounding of
        what they were.
        """
        self.inverse = torch.cholesky_inverse(torch.linalg.cholesky(self.moment))
        self.spread = _forms(self.factors, torch.linalg.cholesky(self.inverse))
        self.effect = _forms(self.factors, self.inverse @ self._root)
        self._first, self._count = float(self.effect.sum()), 0


def _three(factors: Tensor) -> Tensor:
    return factors if factors.ndim == 3 else factors[:, None]


def _second_moment(factors: Tensor) -> Tensor:
    """Return Σ VᵀV [D, D] in double precision."""
    rows = factors.flatten(0, 1)
    total = torch.zeros(rows.shape[1], rows.shape[1], dtype=torch.float64, device=rows.device)
    for part in tiles(len(rows), 8 * rows.shape[1]):
        some = rows[part].double()
        total.addmm_(some.T, some)
    return total


def _forms(factors: Tensor, root: Tensor) -> Tensor:
    """Return V R Rᵀ Vᵀ of each sample [N, C, C] for a root R [D, D]."""
    # A sum of squares: nothing cancels, so the factors' own precision will do.
    root, parts = root.to(factors), []
    for part in tiles(len(factors), factors[:1].nbytes):
        found = (factors[part] @ root).double()
        if factors.shape[1] == 1:
            parts.append(found.square().sum(2, keepdim=True))
        else:
            parts.append(found @ found.mT)
    return torch.cat(parts)


def _two_products(rows: Tensor, u: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """Return the products of rows [N, D] with two vectors [D, 1], each as [N, 1, 1].

    Half the time of a product with a matrix of two columns, and rows come from memory once.
    """
    found = rows.new_empty(2, len(rows))
    for part in tiles(len(rows), rows[:1].nbytes, 2**21 if rows.device.type == "cpu" else None):
        torch.mv(rows[part], u[:, 0], out=found[0, part])
        torch.mv(rows[part], v[:, 0], out=found[1, part])
    first, second = found.double()[:, :, None, None]
    return first, second


def _add_products(forms: Tensor, left: Tensor, right: Tensor, sign: int) -> None:
    """Add left rightᵀ of each sample [N, C, C], in place."""
    if forms.shape[1] == 1:
        forms.addcmul_(left, right, value=sign)
    else:
        forms.baddbmm_(left, right.mT, alpha=sign)


def _traces(spread: Tensor, effect: Tensor) -> Tensor:
    """Return tr((I + spread)⁻¹ effect) of each sample [N]."""
    if spread.shape[1] == 1:
        # Where rounding took a form below 0, there is nothing left to gain.
        return (effect.clamp_min(0) / (1 + spread)).flatten()
    inner = spread + torch.eye(spread.shape[1], dtype=spread.dtype, device=spread.device)
    found: Tensor = torch.linalg.solve(inner, effect).diagonal(dim1=1, dim2=2).sum(1)
    return found
