"""A function run again for one sample at a time, where all its gradients are too many to keep."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from steepest.gradnorm.routes import Routes
from steepest.gradnorm.shares import Share, sum_of_squares

Build = Callable[[int], list[Tensor]]
"""Returns one sample's gradient [*shape] of every source."""


class Sweep:
    """Builds the gradients of a sample once for all the sources of a use.

    Args:
        build: Runs the function again for a sample.
        samples: The number of samples N.
        block: Of how many samples all gradients may be kept.
    """

    def __init__(self, build: Build, samples: int, block: int = 1) -> None:
        self._build, self.samples, self._block = build, samples, block
        self._latest: dict[int, list[Tensor]] = {}
        self._squares: Tensor | None = None

    def squares(self) -> Tensor:
        """Return the squared norms of all sources [N, S]."""
        if self._squares is None:
            rows = [
                torch.cat([sum_of_squares(gradient[None]) for gradient in self._build(sample)])
                for sample in range(self.samples)
            ]
            self._squares = torch.stack(rows)
        return self._squares

    def gradients(self, sample: int) -> list[Tensor]:
        """Return one sample's gradients; not to be changed, as the next to ask gets the same."""
        if sample not in self._latest:
            if len(self._latest) >= self._block:
                self._latest.clear()
            self._latest[sample] = self._build(sample)
        return self._latest[sample]


class Swept(Share):
    """What a sweep finds for one of the sources.

    Args:
        sweep: Shared by the sources of a use.
        number: Which of them this is.
        shape: Its shape.
    """

    def __init__(self, sweep: Sweep, number: int, shape: torch.Size) -> None:
        self.samples, self.shape = sweep.samples, shape
        self._sweep, self._number = sweep, number

    def squares(self, routes: Routes) -> Tensor:
        """Return squared norms [N]."""
        routes.note("sample by sample")
        return self._sweep.squares()[:, self._number]

    def dense(self, rows: slice) -> Tensor:
        """Build gradients [n, *shape]."""
        samples = range(*rows.indices(self.samples))
        return torch.stack([self._sweep.gradients(i)[self._number] for i in samples])
