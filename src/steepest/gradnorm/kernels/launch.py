"""Starting a compiled kernel with as little work on the host as possible."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

Run = Callable[[Tensor, Tensor], Tensor]
PairRun = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]


class Launch:
    """A kernel with all its arguments but the tensors.

    Triton looks at every argument of every call to find the kernel compiled for it. Here shapes
    and alignment are settled beforehand, so that the kernel found at the first call is kept.

    Args:
        kernel: The kernel.
        programs: How many programs run.
        rest: Its arguments that follow the tensors.
        warps: Groups of 32 threads in a program.
        stages: Reads under way at a time.
    """

    def __init__(
        self,
        kernel: Any,  # noqa: ANN401 - Triton is untyped
        programs: int,
        rest: tuple[object, ...],
        warps: int,
        stages: int,
    ) -> None:
        self._kernel = kernel
        self._grid = (programs, 1, 1)
        self._rest = rest
        self._options = {"num_warps": warps, "num_stages": stages}
        self._compiled: Callable[..., None] | None = None

    def __call__(self, *tensors: object) -> None:
        """Start the kernel on the current stream."""
        if self._compiled is not None:
            self._compiled(*tensors, *self._rest)
            return
        compiled = self._kernel[self._grid](*tensors, *self._rest, **self._options)
        if compiled is not None:  # as it is where kernels are interpreted
            self._compiled = compiled[self._grid]


def empty(like: Tensor, *shape: int) -> Tensor:
    """Return a place for results on the device of a tensor."""
    return torch.empty(shape, dtype=torch.float32, device=like.device)


def add_up(shares: Tensor) -> Tensor:
    """Sum the programs' shares [N, programs] of each sample, in a fixed order."""
    return shares[:, 0] if shares.shape[1] == 1 else shares.sum(1)
