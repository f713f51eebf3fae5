"""Sums of a product and of its right factor over the positions, each tensor read once."""

from __future__ import annotations

import triton  # type: ignore[import-untyped]
import triton.language as tl  # type: ignore[import-untyped]
from torch import Tensor

from steepest.gradnorm.kernels.launch import Launch, PairRun, empty
from steepest.gradnorm.kernels.shapes import Layout
from steepest.gradnorm.kernels.tiles import SumTile


def plan_sums(x: Layout, g: Layout, tile: SumTile) -> PairRun:
    """Return a function that computes Σ x·g and Σ g over the positions, [N, C] each."""
    samples, channels, *_ = g.shape
    blocks = -(-channels // tile.channels)
    positions = g.spatial[2]
    fixed = (
        *(channels, positions, (x.stride[0], x.stride[1], x.stride[4])),
        *((g.stride[0], g.stride[1], g.stride[4]), tile.channels, tile.positions),
        *(channels % tile.channels == 0, positions % tile.positions == 0),
    )
    launch = Launch(_sums, samples * blocks, fixed, tile.warps, tile.stages)

    def run(x: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
        products, plain = empty(g, samples, channels), empty(g, samples, channels)
        launch(x, g, products, plain)
        return products, plain

    return run


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
