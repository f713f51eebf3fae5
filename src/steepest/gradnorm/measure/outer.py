"""Gradients that are sums of outer products, as those of linear layers and convolutions."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from steepest.gradnorm import kernels
from steepest.gradnorm.measure.routes import Routes, chunks
from steepest.gradnorm.measure.shares import Share, sum_of_squares, wide

_CANCELLED = 0.02
"""Below this share of what unrelated terms would add up to, a sum counts as cancelled."""


class Outer(Share):
    """Gradients Σ_t g_t a_tᵀ over positions t, group by group.

    Args:
        a: The factor of the weight [N, G, T, K].
        g: The gradient of the result [N, G, T, O].
        shape: The weight's shape, [G · O, K] when flattened.
        transposed: Whether the weight is [K, O] instead.
    """

    def __init__(
        self, a: Tensor, g: Tensor, shape: torch.Size, *, transposed: bool = False
    ) -> None:
        self.samples, self.shape = a.shape[0], shape
        self._a, self._g, self._transposed = a, g, transposed

    def squares(self, routes: Routes) -> Tensor:
        """Return squared norms [N]."""
        a, g = self._a, self._g
        groups, positions, fan_in, fan_out = *a.shape[1:], g.shape[3]
        if positions == 1:
            routes.note("closed form")
            left: Tensor = torch.linalg.vector_norm(a, dim=3, dtype=wide(a))
            right: Tensor = torch.linalg.vector_norm(g, dim=3, dtype=wide(g))
            squares = (left * right).square_()
            return squares.flatten() if groups == 1 else squares.sum((1, 2))
        costs: dict[str, float] = {
            "instantiate": positions * fan_in * fan_out,
            "gram": positions**2 * (fan_in + fan_out),
        }
        if groups == 1 and routes.fused(a, g):
            gram = kernels.prefer_gram(positions, fan_in, fan_out, 1, a.dtype)
            costs = {"fused": 1.0 + gram, "fused-gram": 2.0 - gram}
        route = routes.pick(self._key, costs, lambda name: self._by(name, routes), self._scratch)
        return self._by(route, routes)

    def _key(self) -> str:
        """Describe the layer for the clock."""
        sizes = *self._a.shape[1:], self._g.shape[3]
        return f"outer {' '.join(map(str, sizes))} {self._a.dtype} {self._a.device.type}"

    def dense(self, rows: slice) -> Tensor:
        """Build gradients [n, *shape]."""
        left, right = self._factors(rows)
        return (left.transpose(2, 3) @ right).reshape(-1, *self.shape)

    def add_to(self, total: Tensor, rows: slice) -> Tensor:
        """Return a sum of gradients [n, *shape] with these added, in place where possible."""
        left, right = (factor.flatten(0, 1) for factor in self._factors(rows))
        if {left.dtype, right.dtype} != {total.dtype} or not total.is_contiguous():
            return super().add_to(total, rows)
        total.view(len(left), left.shape[2], -1).baddbmm_(left.transpose(1, 2), right)
        return total

    def joined(self, others: Sequence[Share]) -> Share | None:
        """Return one sum over the positions of all, as where a layer is called step by step."""
        found = [self, *(share for share in others if isinstance(share, Outer))]
        forms = {(o._a.shape[1], o._transposed, o._a.dtype, o._g.dtype) for o in found}  # noqa: SLF001
        if len(found) <= len(others) or len(forms) > 1:
            return None
        a, g = (torch.cat(each, dim=2) for each in zip(*((o._a, o._g) for o in found), strict=True))  # noqa: SLF001
        return Outer(a, g, self.shape, transposed=self._transposed)

    def _factors(self, rows: slice) -> tuple[Tensor, Tensor]:
        a, g = self._a[rows], self._g[rows]
        return (a, g) if self._transposed else (g, a)

    def _scratch(self, route: str) -> int:
        """Return how many numbers a route writes down for one sample."""
        groups, positions, fan_in, fan_out = *self._a.shape[1:], self._g.shape[3]
        sizes = {"gram": positions**2, "instantiate": fan_in * fan_out}
        return groups * sizes.get(route, 0)

    def _by(self, route: str, routes: Routes) -> Tensor:
        a, g = self._a, self._g
        if route == "fused":
            return kernels.outer_squares(a[:, 0], g[:, 0], routes.tf32)
        if route == "fused-gram":
            total, size = kernels.gram_squares(a[:, 0], g[:, 0], routes.tf32)
            routes.doubt(cancelled(total, size, a.shape[2]))
            return total.clamp_min(0)
        parts = []
        for rows in chunks(self.samples, self._scratch(route)):
            whole = rows.stop - rows.start == self.samples
            x, y = (a, g) if whole else (a[rows], g[rows])
            if route == "gram":
                parts.append(gram_total(x, y, routes))
            else:
                parts.append(sum_of_squares(y.transpose(2, 3) @ x))
        return parts[0] if len(parts) == 1 else torch.cat(parts)


def gram_total(a: Tensor, g: Tensor, routes: Routes) -> Tensor:
    """Return Σ_{s,t} (a_s·a_t)(g_s·g_t) per sample [N].

    Where the terms cancel, rounding would show in the sum. On a CPU those samples are summed up
    again in double precision; elsewhere they are reported, and measured another way.

    Args:
        a: Inputs [N, G, T, K].
        g: Gradients [N, G, T, O].
        routes: Takes the reports.
    """
    left, right = (wide_gram(each) for each in (a, g))
    # A product in place: these are the largest tensors of all.
    corners = (left.diagonal(dim1=2, dim2=3) * right.diagonal(dim1=2, dim2=3)).clamp_min(0)
    total = left.mul_(right).sum((1, 2, 3))
    doubtful = cancelled(total, corners.sqrt().sum((1, 2)).square(), left.shape[-1])
    if g.device.type != "cpu" or routes.traced or g.dtype == torch.float64:
        routes.doubt(doubtful)
    elif bool(doubtful.any()):
        again = gram_total(a[doubtful].double(), g[doubtful].double(), routes)
        total[doubtful] = again.to(total.dtype)
    return total.clamp_min(0)


def wide_gram(rows: Tensor) -> Tensor:
    """Return the products of all pairs of rows [..., T, T], in single precision at least."""
    gram = rows @ rows.transpose(-1, -2)
    return gram.to(wide(gram))


def cancelled(total: Tensor, size: Tensor, positions: int) -> Tensor:
    """Flag sums [N] far below what unrelated terms of the same sizes would add up to."""
    return total * positions < _CANCELLED * size
