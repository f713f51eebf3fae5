"""Running the kernels for batch normalisation on tensors whose channels are neighbours."""

from __future__ import annotations

import torch
from torch import Tensor

from steepest.training.kernels import norm
from steepest.training.kernels.formulas import Gradients, Normed
from steepest.training.kernels.tiles import Tile, tile_for


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
    tile = tile_for(rows, channels)
    shares = _floats(x, tile.parts, 2, channels)
    out = torch.empty_like(x)
    mean, inverse = _floats(x, channels), _floats(x, channels)
    norm.moments[tile.parts, tile.columns](
        *(x, shares, rows, channels, tile.share_rows),
        **_summing(tile),
    )
    norm.normalise[-(-rows // tile.applied_rows), tile.columns](
        *(x, shares, weight, bias, x if residual is None else residual, out, mean, inverse),
        *(running_mean, running_var, momentum, eps),
        *(rows, channels, tile.share_rows, tile.parts),
        has_residual=residual is not None,
        relu=relu,
        **_applying(tile),
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
    tile = tile_for(rows, channels)
    shares = _floats(x, tile.parts, 2, channels)
    # What the sums are made of is written down if it costs more than one tensor to make again.
    written = keep or second is not None or result is not None
    kept = torch.empty_like(first) if written else first
    norm.gradient_sums[tile.parts, tile.columns](
        *(first, first if second is None else second, x, x if result is None else result),
        *(mean, inverse, weight, bias, kept, shares, rows, channels, tile.share_rows),
        has_second=second is not None,
        has_result=result is not None,
        relu=relu,
        keep=written,
        **_summing(tile),
    )
    to_x = torch.empty_like(x)
    to_weight, to_bias = _floats(x, channels), _floats(x, channels)
    norm.gradient_of_x[-(-rows // tile.applied_rows), tile.columns](
        *(kept, x, shares, mean, inverse, weight, bias, to_x, to_weight, to_bias),
        *(rows, channels, tile.parts),
        relu=relu and not written,
        **_applying(tile),
    )
    return to_x, to_weight, to_bias, kept if keep else first.new_empty(0)


def _floats(like: Tensor, *shape: int) -> Tensor:
    return torch.empty(shape, dtype=torch.float32, device=like.device)


def _summing(tile: Tile) -> dict[str, int]:
    return {
        "unroll": tile.unroll,
        "block_r": tile.summed_rows,
        "block_c": tile.channels,
        "num_warps": tile.sum_warps,
    }


def _applying(tile: Tile) -> dict[str, int]:
    return {
        "block_p": tile.block_parts,
        "block_r": tile.applied_rows,
        "block_c": tile.channels,
        "num_warps": tile.warps,
    }
