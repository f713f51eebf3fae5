"""Running the kernels for batch normalisation on tensors whose channels are neighbours."""

from __future__ import annotations

import torch
from torch import Tensor

from steepest.training.fast.kernels import norm
from steepest.training.fast.kernels.formulas import Gradients, Normed
from steepest.training.fast.kernels.norm import make_one
from steepest.training.fast.kernels.tiles import (
    Part,
    Sums,
    choice_for,
    part_for,
    power_above,
    sums_for,
)

_ADDED_CHANNELS = 8
_ADDING_WARPS = 8


def run_normed(
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    running_mean: Tensor,
    running_var: Tensor,
    momentum: float,
    eps: float,
    residual: Tensor | None,
    relu: bool,
) -> Normed:
    """Do what ``formulas.normed`` does."""
    rows, channels = x.numel() // x.shape[1], x.shape[1]
    out = torch.empty_like(x)
    mean, inverse = _floats(x, channels), _floats(x, channels)
    added = x if residual is None else residual
    state = (running_mean, running_var, momentum, eps, rows, channels)
    flags = {"has_residual": residual is not None, "relu": relu}
    choice = choice_for(rows)
    sums, part = sums_for(rows, channels, choice.moments), part_for(rows, channels, choice.applying)
    shares = _floats(x, sums.parts, 2, channels)
    norm.moments[sums.parts, sums.columns](
        *(x, shares, rows, channels, sums.rows), **_summing(sums)
    )
    found, share_rows, parts = _fewer_shares(shares, rows, sums, are_moments=True)
    norm.normalise[part.programs, part.columns](
        *(x, found, weight, bias, added, out, mean, inverse, *state, share_rows, parts),
        **flags,
        **_applying(part, parts),
    )
    return out, mean, inverse


def run_normed_backward(
    first: Tensor,
    second: Tensor | None,
    x: Tensor,
    result: Tensor | None,
    mean: Tensor,
    inverse: Tensor,
    weight: Tensor,
    bias: Tensor,
    relu: bool,
    keep: bool,
) -> Gradients:
    """Do what ``formulas.normed_backward`` does."""
    rows, channels = x.numel() // x.shape[1], x.shape[1]
    # What the sums are made of is written down if it costs more than one tensor to make again.
    written = keep or second is not None or result is not None
    kept = torch.empty_like(first) if written else first
    to_x = torch.empty_like(x)
    to_weight, to_bias = _floats(x, channels), _floats(x, channels)
    given = (first, first if second is None else second, x, x if result is None else result)
    state = (mean, inverse, weight, bias)
    flags = {
        "has_second": second is not None,
        "has_result": result is not None,
        "relu": relu,
        "keep": written,
    }
    choice = choice_for(rows)
    sums = sums_for(rows, channels, choice.written if written else choice.gradients)
    part = part_for(rows, channels, choice.applying)
    shares = _floats(x, sums.parts, 2, channels)
    norm.gradient_sums[sums.parts, sums.columns](
        *(*given, *state, kept, shares, rows, channels, sums.rows), **flags, **_summing(sums)
    )
    found, _, parts = _fewer_shares(shares, rows, sums, are_moments=False)
    norm.gradient_of_x[part.programs, part.columns](
        *(kept, x, found, *state, to_x, to_weight, to_bias, rows, channels, parts),
        relu=relu and not written,
        **_applying(part, parts),
    )
    return to_x, to_weight, to_bias, kept if keep else first.new_empty(0)


def _fewer_shares(
    shares: Tensor, rows: int, sums: Sums, *, are_moments: bool
) -> tuple[Tensor, int, int]:
    """Return shares that are few enough, with their rows and their number."""
    if not sums.added_up_first:
        return shares, sums.rows, sums.parts
    channels = shares.shape[2]
    one = _floats(shares, 1, 2, channels)
    make_one[(-(-channels // _ADDED_CHANNELS),)](
        *(shares, one, rows, channels, sums.rows, sums.parts),
        are_moments=are_moments,
        block_p=power_above(sums.parts),
        block_c=_ADDED_CHANNELS,
        num_warps=_ADDING_WARPS,
    )
    return one, rows, 1


def _floats(like: Tensor, *shape: int) -> Tensor:
    return torch.empty(shape, dtype=torch.float32, device=like.device)


def _summing(sums: Sums) -> dict[str, int]:
    return {
        "unroll": sums.unroll,
        "block_r": sums.block_rows,
        "block_c": sums.channels,
        "num_warps": sums.warps,
    }


def _applying(part: Part, parts: int) -> dict[str, int]:
    return {
        "block_p": power_above(parts),
        "block_r": part.rows,
        "block_c": part.channels,
        "num_warps": part.warps,
    }
