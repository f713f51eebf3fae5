"""Bring every sample's gradient to a size around one before it is squared."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from steepest.errors import ModelError
from steepest.gradnorm import inputs as batches


def scales_of(values: Tensor, outputs: Any) -> Tensor:  # noqa: ANN401
    """Return powers of two [N] that bring each sample's gradient to a size around one.

    The squares of a sure sample's gradient would otherwise vanish in single precision. Scaling by
    a power of two is exact, and is undone afterwards.
    """
    ones = torch.ones(len(values), dtype=torch.float64, device=values.device)
    try:
        logits = batches.logits_of(outputs)
    except ModelError:
        return ones
    if not logits.requires_grad:
        return ones
    (found,) = torch.autograd.grad(values.sum(), logits, retain_graph=True, allow_unused=True)
    gradient: Tensor | None = found
    if gradient is None:
        return ones
    size = gradient.reshape(len(gradient), -1).abs().amax(1).double()
    exponents = torch.where(size > 0, size.clamp_min(1e-300).log2().floor(), 0)
    return torch.exp2(-exponents.clamp(-120, 120)).to(values.device)


def rescaled(squares: Mapping[nn.Parameter, Tensor], scales: Tensor) -> dict[nn.Parameter, Tensor]:
    """Undo the scaling of squared norms [N], for all parameters at once."""
    if not squares:
        return {}
    table = torch.stack([s.to(scales.device) for s in squares.values()]).double()
    return dict(zip(squares, (table / scales.square()).unbind(), strict=True))
