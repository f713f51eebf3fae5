"""Hold what a plan measures against what autograd measures."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from steepest.gradnorm.components import Squares

_OFF = 1e-2
_NEGLIGIBLE = 1e-4
"""So small a share of a sample's gradient may be rounding alone."""


def disagreeing(found: Sequence[Squares], alone: Sequence[Squares]) -> set[nn.Parameter]:
    """Return the parameters whose squared norms [N] differ by more than rounding.

    Args:
        found: Squared norms for each loss by the plan; what is not there counts as zero.
        alone: The same for every parameter, measured one sample at a time.
    """
    wrong: set[nn.Parameter] = set()
    for mine, truth in zip(found, alone, strict=True):
        size = torch.stack(list(truth.values())).sum(0).sqrt()
        for parameter, squares in truth.items():
            exact = squares.sqrt()
            got = mine[parameter].sqrt() if parameter in mine else torch.zeros_like(exact)
            if bool(((got - exact).abs() > _OFF * exact + _NEGLIGIBLE * size).any()):
                wrong.add(parameter)
    return wrong
