"""Gradients of bilinear forms: sums of products of three vectors."""

from __future__ import annotations

import torch
from torch import Tensor

from steepest.gradnorm.outer import gram_total
from steepest.gradnorm.routes import Routes, chunks
from steepest.gradnorm.shares import Share, sum_of_squares, wide


class Paired(Share):
    """Gradients Σ_t g_t ⊗ a_t ⊗ b_t over positions t.

    Args:
        a: The left input [N, T, I].
        b: The right input [N, T, J].
        g: The gradient of the result [N, T, O].
    """

    def __init__(self, a: Tensor, b: Tensor, g: Tensor) -> None:
        self.samples = len(a)
        self.shape = torch.Size([g.shape[2], a.shape[2], b.shape[2]])
        self._a, self._b, self._g = a, b, g

    def squares(self, routes: Routes) -> Tensor:
        """Return squared norms [N]."""
        factors = (self._a, self._b, self._g)
        positions = self._a.shape[1]
        if positions == 1:
            routes.note("closed form")
            norms = [torch.linalg.vector_norm(f, dim=(1, 2), dtype=wide(f)) for f in factors]
            return torch.stack(norms).prod(0).square()
        costs: dict[str, float] = {
            "instantiate": positions * self.shape.numel(),
            "gram": positions**2 * sum(self.shape),
        }
        scratch = {"instantiate": self._width(), "gram": positions**2}
        route = routes.pick(
            self._key, costs, lambda name: self._by(name, routes), scratch.__getitem__
        )
        return self._by(route, routes)

    def _key(self) -> str:
        """Describe the layer for the clock."""
        kind = f"{self._a.dtype} {self._a.device.type}"
        return f"paired {self._a.shape[1]} {list(self.shape)} {kind}"

    def dense(self, rows: slice) -> Tensor:
        """Build gradients [n, *shape]."""
        return _products(self._a[rows], self._b[rows], self._g[rows])

    def _width(self) -> int:
        """Return how many numbers are written down for one sample and one output."""
        _, left, right = self.shape
        return left * (self._a.shape[1] + right)

    def _by(self, route: str, routes: Routes) -> Tensor:
        if route == "gram":
            both = torch.cat([self._a, self._b], dim=2)
            rows_of = chunks(self.samples, self._a.shape[1] ** 2)
            parts = [gram_total(self._grams, both[r], self._g[r], routes) for r in rows_of]
        else:
            floats = self.shape[0] * self._width()
            parts = [self._built_squares(rows) for rows in chunks(self.samples, floats)]
        return torch.cat(parts)

    def _grams(self, both: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
        a, b = both[:, None].tensor_split([self.shape[1]], dim=3)
        products = (a @ a.transpose(2, 3)).mul_(b @ b.transpose(2, 3))
        return products, (g @ g.transpose(1, 2))[:, None]

    def _built_squares(self, rows: slice) -> Tensor:
        a, b, g = self._a[rows], self._b[rows], self._g[rows]
        # One sample alone may be too large: then some outputs at a time.
        columns = chunks(self.shape[0], len(a) * self._width())
        return torch.stack([sum_of_squares(_products(a, b, g[..., c])) for c in columns]).sum(0)


def _products(a: Tensor, b: Tensor, g: Tensor) -> Tensor:
    """Return Σ_t g_t ⊗ a_t ⊗ b_t [n, O, I, J] from [n, T, I], [n, T, J] and [n, T, O]."""
    left = (g[..., None] * a[:, :, None]).flatten(2)
    return (left.transpose(1, 2) @ b).reshape(len(a), g.shape[2], a.shape[2], b.shape[2])
