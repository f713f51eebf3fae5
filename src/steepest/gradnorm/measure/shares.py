"""Contributions of one function call to the per-sample gradients of a parameter."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor

from steepest.gradnorm.measure.routes import Routes, chunks

_PART = 4
"""Whole gradients are large enough to be worth starting on with this part of the scratch space."""


class Share(ABC):
    """Per-sample gradients of one parameter through one call, not necessarily built.

    Attributes:
        samples: The number of samples N.
        shape: The parameter's shape.
    """

    samples: int
    shape: torch.Size

    @abstractmethod
    def squares(self, routes: Routes) -> Tensor:
        """Return the squared norm of each sample's gradient [N], by the cheapest route."""

    @abstractmethod
    def dense(self, rows: slice) -> Tensor:
        """Build the gradients of some samples [n, *shape]; the caller may write into them."""

    def add_to(self, total: Tensor, rows: slice) -> Tensor:
        """Return a sum of gradients [n, *shape] with these added, in place where possible."""
        built = self.dense(rows)
        return total.add_(built) if built.dtype == total.dtype else total + built

    def joined(self, others: Sequence[Share]) -> Share | None:  # noqa: ARG002
        """Return the sum of these and other gradients of the parameter, if it takes no building."""
        return None


class Dense(Share):
    """Gradients that are at hand: of biases, scales, embeddings of positions.

    Args:
        gradients: [N, *shape].
    """

    def __init__(self, gradients: Tensor) -> None:
        self.samples, self.shape = gradients.shape[0], gradients.shape[1:]
        self._gradients = gradients

    def squares(self, routes: Routes) -> Tensor:
        """Return squared norms [N]."""
        routes.note("closed form")
        return sum_of_squares(self._gradients)

    def dense(self, rows: slice) -> Tensor:
        """Return the gradients [n, *shape]."""
        return self._gradients[rows].clone()

    def joined(self, others: Sequence[Share]) -> Share | None:
        """Return the sum of these and other gradients that are at hand."""
        found = [share._gradients for share in others if type(share) is type(self)]  # noqa: SLF001
        alike = len(found) == len(others) and {g.dtype for g in found} <= {self._gradients.dtype}
        return type(self)(torch.stack([self._gradients, *found]).sum(0)) if alike else None


def squares_of_sum(shares: Sequence[Share], routes: Routes) -> Tensor:
    """Return ‖Σ_u g_u‖² per sample [N] for the uses u of one parameter, cross terms included."""
    first = shares[0]
    together = first if len(shares) == 1 else first.joined(shares[1:])
    if together is not None:
        return together.squares(routes)
    routes.note("instantiate")
    parts = chunks(first.samples, _PART * first.shape.numel())
    return torch.cat([sum_of_squares(sum_of_gradients(shares, rows)) for rows in parts])


def sum_of_gradients(shares: Sequence[Share], rows: slice) -> Tensor:
    """Build the sum of what the uses of one parameter add, for some samples [n, *shape]."""
    total = shares[0].dense(rows)
    for share in shares[1:]:
        total = share.add_to(total, rows)
    return total


def sum_of_squares(gradients: Tensor) -> Tensor:
    """Return the squared norm of each sample's gradient [N], from [N, ...]."""
    flat = gradients if gradients.ndim == 2 else gradients.reshape(gradients.shape[0], -1)
    norms: Tensor = torch.linalg.vector_norm(flat, dim=1, dtype=wide(flat))
    return norms.square()


def wide(tensor: Tensor) -> torch.dtype:
    """Return the precision to add up squares in: single at least."""
    dtype = tensor.dtype
    return dtype if dtype == torch.float32 else torch.promote_types(dtype, torch.float32)
