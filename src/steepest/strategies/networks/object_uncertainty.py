"""The uncertainty of a prediction that ``sraal`` teaches its discriminator."""

from __future__ import annotations

import torch
from torch import Tensor

_TINY = 1e-12


def object_uncertainty(probabilities: Tensor, *, unbiased: bool = False) -> Tensor:
    """Return 1 − m · v(m) / Var(p) for each prediction [N, ...], in [0, 1].

    m is the largest probability, Var the variance over the C classes, and v(m) the smallest
    variance that a prediction with that m can have: all others equal. It is 0 for one-hot
    predictions alone, at least 1 − m for all, and 1 − 1/C for uniform ones, where both variances
    vanish and their ratio is taken as 1.

    Args:
        probabilities: Of each class, at each position [N, C, ...].
        unbiased: Whether the variance is divided by C − 1 while the smallest is divided by C, as
            in the published code: a one-hot prediction then has 1/C and not 0.
    """
    p = probabilities.double()
    classes = p.shape[1]
    largest = p.max(1).values
    even = 1 / classes
    rest = (1 - largest) / (classes - 1)
    smallest = ((even - largest) ** 2 + (classes - 1) * (even - rest) ** 2) / classes
    variance = p.var(1, correction=1 if unbiased else 0)
    flat = variance <= _TINY
    ratio = torch.where(flat, 1.0, smallest / variance.clamp_min(_TINY))
    # Rounding alone can take it out of its range.
    return (1 - largest * ratio).clamp(0, 1)
