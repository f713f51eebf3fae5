"""An orthonormal basis that grows: room for it, and what of a vector lies outside of it."""

from __future__ import annotations

import torch
from torch import Tensor

from steepest.core.memory import free_bytes
from steepest.errors import InputError

_SHARE = 0.8
"""Share of the free memory that the basis may take."""


def empty_basis(count: int, like: Tensor) -> Tensor:
    """Return room for vectors [count, P] like one of them [P].

    Raises:
        InputError: If they do not fit into memory.
    """
    if count * len(like) * like.itemsize > _SHARE * free_bytes(like.device):
        raise InputError(
            f"{count} vectors of {len(like)} entries do not fit into memory: use fewer iterations"
        )
    return torch.zeros(count, len(like), dtype=like.dtype, device=like.device)


def outside_of(basis: Tensor, vector: Tensor) -> Tensor:
    """Return the part of a vector [P] that is orthogonal to a basis [M, P]."""
    # Once is not enough in floating point; twice is.
    for _ in range(2):
        vector = vector - basis.T @ (basis @ vector)
    return vector
