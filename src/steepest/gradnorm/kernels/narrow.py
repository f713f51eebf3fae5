"""Squared norms of the weight's gradient where the input has few channels.

Channels and taps of the kernel are counted together, so that the three colours of an image
still make a full tile.
"""

from __future__ import annotations

import triton  # type: ignore[import-untyped]
import triton.language as tl  # type: ignore[import-untyped]
from torch import Tensor

from steepest.gradnorm.kernels.launch import Launch, Run, add_up, empty
from steepest.gradnorm.kernels.shapes import Problem, covers
from steepest.gradnorm.kernels.tiles import Tile


def plan_patches(problem: Problem, tile: Tile, precision: str) -> Run:
    """Return a function that computes the squared norms [N] from input and gradient."""
    p = problem
    programs = -(-p.g.channels // tile.outputs) * -(-p.a.channels * p.taps // tile.channels)
    fixed = (
        *(p.a.channels, p.g.channels, p.a.spatial, p.g.spatial, p.a.stride, p.g.stride),
        *(p.kernel, p.step, p.pad, p.gap, tile.block, tile.channels, tile.outputs),
        *(covers(p.g.spatial, tile.block), covers([p.g.channels], [tile.outputs]), precision),
    )
    launch = Launch(_patches, p.samples * programs, fixed, tile.warps, tile.stages)

    def run(a: Tensor, g: Tensor) -> Tensor:
        shares = empty(g, p.samples, programs)
        launch(a, g, shares)
        return add_up(shares)

    return run


@triton.jit  # type: ignore[untyped-decorator]
def _patches(  # noqa: PLR0915 - one pass over registers
    a: tl.tensor,
    g: tl.tensor,
    out: tl.tensor,
    channels: tl.tensor,
    outputs: tl.tensor,
    a_size: tl.tuple,
    g_size: tl.tuple,
    a_stride: tl.tuple,
    g_stride: tl.tuple,
    kernel: tl.constexpr,
    step: tl.constexpr,
    pad: tl.constexpr,
    gap: tl.constexpr,
    block: tl.constexpr,
    block_k: tl.constexpr,
    block_o: tl.constexpr,
    whole_t: tl.constexpr,
    whole_o: tl.constexpr,
    precision: tl.constexpr,
) -> None:
    """Make a tile of K by O where K counts channels and taps together."""
    taps: tl.constexpr = kernel[0] * kernel[1] * kernel[2]
    blocks_k = tl.cdiv(channels * taps, block_k)
    blocks_o = tl.cdiv(outputs, block_o)
    n = (tl.program_id(0) // (blocks_k * blocks_o)).to(tl.int64)
    o = (tl.program_id(0) % blocks_o) * block_o + tl.arange(0, block_o)
    k = (tl.program_id(0) // blocks_o % blocks_k) * block_k + tl.arange(0, block_k)
    tap = k // channels
    kx = tap % kernel[2] * gap[2] - pad[2]
    ky = tap // kernel[2] % kernel[1] * gap[1] - pad[1]
    kz = tap // (kernel[2] * kernel[1]) * gap[0] - pad[0]

    positions: tl.constexpr = block[0] * block[1] * block[2]
    t = tl.arange(0, positions)
    dx = t % block[2]
    dy = t // block[2] % block[1]
    dz = t // (block[2] * block[1])
    g_tile = dz * g_stride[2] + dy * g_stride[3] + dx * g_stride[4]
    g_tile = g + n * g_stride[0] + (o[:, None] * g_stride[1] + g_tile[None, :])
    a_tile = kz * a_stride[2] + ky * a_stride[3] + kx * a_stride[4] + k % channels * a_stride[1]
    a += n * a_stride[0]
    total = tl.zeros((block_o, block_k), tl.float32)
    blocks_x = tl.cdiv(g_size[2], block[2])
    blocks_y = tl.cdiv(g_size[1], block[1])
    for at in range(blocks_x * blocks_y * tl.cdiv(g_size[0], block[0])):
        x = (at % blocks_x) * block[2]
        y = (at // blocks_x % blocks_y) * block[1]
        z = (at // (blocks_x * blocks_y)) * block[0]
        inside = tl.full((positions,), 1, tl.int1)
        if not whole_t:
            inside = inside & (x + dx < g_size[2]) & (y + dy < g_size[1]) & (z + dz < g_size[0])
        mask = inside[None, :]
        if not whole_o:
            mask = mask & (o < outputs)[:, None]
        start = z * g_stride[2] + y * g_stride[3] + x * g_stride[4]
        right = tl.load(g_tile + start, mask=mask, other=0.0)

        x = (x + dx) * step[2]
        y = (y + dy) * step[1]
        z = (z + dz) * step[0]
        here = (z * a_stride[2] + y * a_stride[3] + x * a_stride[4])[:, None] + a_tile[None, :]
        seen = inside[:, None] & (tap < taps)[None, :]
        if pad[2] > 0:
            far = x[:, None] + kx[None, :]
            seen = seen & (far >= 0) & (far < a_size[2])
        if pad[1] > 0:
            far = y[:, None] + ky[None, :]
            seen = seen & (far >= 0) & (far < a_size[1])
        if pad[0] > 0:
            far = z[:, None] + kz[None, :]
            seen = seen & (far >= 0) & (far < a_size[0])
        left = tl.load(a + here, mask=seen, other=0.0)
        total = tl.dot(right, left, total, input_precision=precision)
    tl.store(out + tl.program_id(0), tl.sum(total * total))
