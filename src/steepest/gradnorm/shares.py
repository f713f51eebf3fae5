"""What one call of a function adds to the per-sample gradients of a parameter."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from steepest.gradnorm.routes import Routes, chunks


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
        """Build the gradients of some samples [n, *shape]."""


class Dense(Share):
    """Gradients that are at hand: of biases, scales, embeddings of positions.

    Args:
        gradients: [N, *shape].
    """

    def __init__(self, gradients: Tensor) -> None:
        self.samples, self.shape = len(gradients), gradients.shape[1:]
        self._gradients = gradients

    def squares(self, routes: Routes) -> Tensor:
        """Return squared norms [N]."""
        routes.note("closed form")
        return sum_of_squares(self._gradients)

    def dense(self, rows: slice) -> Tensor:
        """Return the gradients [n, *shape]."""
        return self._gradients[rows]


class Lookup(Share):
    """Gradients of a table of which each sample uses some rows.

    Args:
        ids: Which rows [N, T].
        gradients: What each use adds to its row [N, T, D].
        shape: [rows, D].
    """

    def __init__(self, ids: Tensor, gradients: Tensor, shape: torch.Size) -> None:
        self.samples, self.shape = len(ids), shape
        self._ids, self._gradients = ids, gradients

    def squares(self, routes: Routes) -> Tensor:
        """Return squared norms [N]: uses of the same row are added up before they are squared."""
        routes.note("closed form")
        ids, order = self._ids.sort(dim=1)
        rows = self._gradients.gather(1, order[..., None].expand_as(self._gradients))
        # Equal ids are neighbours now: number the runs, and add up each run in a row of its own.
        starts = torch.ones_like(ids)
        starts[:, 1:] = (ids[:, 1:] != ids[:, :-1]).long()
        runs = (starts.cumsum(1) - 1)[..., None].expand_as(rows)
        summed = torch.zeros_like(rows).scatter_add_(1, runs, rows)
        return sum_of_squares(summed)

    def dense(self, rows: slice) -> Tensor:
        """Build gradients [n, rows, D]."""
        ids, gradients = self._ids[rows], self._gradients[rows]
        built = gradients.new_zeros(len(ids), *self.shape)
        return built.scatter_add_(1, ids[..., None].expand_as(gradients), gradients)


class Rerun(Dense):
    """Gradients that were built by running a function again for every sample."""

    def squares(self, routes: Routes) -> Tensor:
        """Return squared norms [N]."""
        routes.note("sample by sample")
        return sum_of_squares(self._gradients)


class Built(Share):
    """Gradients that can only be built one sample at a time.

    Args:
        build: Returns one sample's gradient [*shape].
        samples: The number of samples N.
        shape: The parameter's shape.
    """

    def __init__(self, build: Callable[[int], Tensor], samples: int, shape: torch.Size) -> None:
        self.samples, self.shape, self._build = samples, shape, build

    def squares(self, routes: Routes) -> Tensor:
        """Return squared norms [N]."""
        routes.note("sample by sample")
        return torch.cat([sum_of_squares(self._build(i)[None]) for i in range(self.samples)])

    def dense(self, rows: slice) -> Tensor:
        """Build gradients [n, *shape]."""
        return torch.stack([self._build(i) for i in range(*rows.indices(self.samples))])


def squares_of_sum(shares: Sequence[Share], routes: Routes) -> Tensor:
    """Return ‖Σ_u g_u‖² per sample [N] for the uses u of one parameter, cross terms included."""
    first = shares[0]
    if len(shares) == 1:
        return first.squares(routes)
    routes.note("instantiate")
    parts = []
    for rows in chunks(first.samples, first.shape.numel()):
        total = first.dense(rows)
        for share in shares[1:]:
            total = total + share.dense(rows)
        parts.append(sum_of_squares(total))
    return torch.cat(parts)


def sum_of_squares(gradients: Tensor) -> Tensor:
    """Return the squared norm of each sample's gradient [N], from [N, ...]."""
    flat = gradients.reshape(len(gradients), -1)
    norms: Tensor = torch.linalg.vector_norm(flat, dim=1, dtype=wide(flat))
    return norms.square()


def wide(tensor: Tensor) -> torch.dtype:
    """Return the precision to add up squares in: single at least."""
    return torch.promote_types(tensor.dtype, torch.float32)
