"""Sums whose order is fixed, so that they are the same to the last bit."""

from __future__ import annotations

import torch
from torch import Tensor


def ordered_sum(values: Tensor) -> Tensor:
    """Sum all but the first axis, in double precision and always in the same order.

    A library's own sum may split its work by batch size and threads, and round differently.

    Returns:
        Sums [N].
    """
    rest = values.reshape(len(values), -1).to(torch.float64)
    while rest.shape[1] > 1:
        half = rest.shape[1] // 2
        folded = rest[:, :half] + rest[:, half : 2 * half]
        rest = folded if rest.shape[1] % 2 == 0 else torch.cat([folded, rest[:, -1:]], dim=1)
    return rest[:, 0]
