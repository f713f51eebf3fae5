"""Sums of a product and of its right factor over the positions, each tensor read once."""

from __future__ import annotations

import torch
import triton  # type: ignore[import-untyped]
import triton.language as tl  # type: ignore[import-untyped]
from torch import Tensor

from steepest.gradnorm.kernels.tiles import SumTile


def sums_by_channel(x: Tensor, g: Tensor, tile: SumTile) -> tuple[Tensor, Tensor]:
    """Return Σ x·g and Σ g over the positions of [N, C, *S], [N, C] each."""
    x, g = x.flatten(2), g.flatten(2)
    samples, channels, positions = x.shape
    products = torch.empty((samples, channels), dtype=torch.float32, device=g.device)
    plain = torch.empty_like(products)
    blocks = -(-channels // tile.channels)
    _sums[(samples * blocks,)](
        *(x, g, products, plain, channels, positions, x.stride(), g.stride()),
        block_c=tile.channels,
        block_t=tile.positions,
        whole_c=channels % tile.channels == 0,
        whole_t=positions % tile.positions == 0,
        num_warps=tile.warps,
        num_stages=tile.stages,
    )
    return products, plain


@triton.jit  # type: ignore[untyped-decorator]
def _sums(
    x: tl.tensor,
    g: tl.tensor,
    products_out: tl.tensor,
    plain_out: tl.tensor,
    channels: tl.tensor,
    positions: tl.tensor,
    x_stride: tl.tuple,
    g_stride: tl.tuple,
    block_c: tl.constexpr,
    block_t: tl.constexpr,
    whole_c: tl.constexpr,
    whole_t: tl.constexpr,
) -> None:
    blocks = tl.cdiv(channels, block_c)
    n = (tl.program_id(0) // blocks).to(tl.int64)
    c = (tl.program_id(0) % blocks) * block_c + tl.arange(0, block_c)
    t = tl.arange(0, block_t)
    x += n * x_stride[0] + (c[None, :] * x_stride[1] + t[:, None] * x_stride[2])
    g += n * g_stride[0] + (c[None, :] * g_stride[1] + t[:, None] * g_stride[2])
    products = tl.zeros((block_t, block_c), tl.float32)
    plain = tl.zeros((block_t, block_c), tl.float32)
    for start in range(0, positions, block_t):
        mask = tl.full((block_t, block_c), 1, tl.int1)
        if not whole_c:
            mask = mask & (c < channels)[None, :]
        if not whole_t:
            mask = mask & (t + start < positions)[:, None]
        left = tl.load(x + start * x_stride[2], mask=mask, other=0.0).to(tl.float32)
        right = tl.load(g + start * g_stride[2], mask=mask, other=0.0).to(tl.float32)
        products += left * right
        plain += right
    at = n * channels + c
    inside = c < channels
    tl.store(products_out + at, tl.sum(products, axis=0), mask=inside)
    tl.store(plain_out + at, tl.sum(plain, axis=0), mask=inside)
