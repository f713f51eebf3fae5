"""Squared norms of the weight's gradient, made tile by tile in registers.

A tile of the gradient is summed over the positions, squared, summed up and forgotten, so that
the gradients of the samples never reach memory. Patches are not built either: a tap of the
kernel is a shift of where the input is read, and padding a mask.
"""

from __future__ import annotations

import triton  # type: ignore[import-untyped]
import triton.language as tl  # type: ignore[import-untyped]
from torch import Tensor

from steepest.gradnorm.kernels.launch import Launch, Run, add_up, empty
from steepest.gradnorm.kernels.shapes import Problem, covers
from steepest.gradnorm.kernels.tiles import Tile


def plan_rows(problem: Problem, tile: Tile, precision: str) -> Run:
    """Return a function that computes the squared norms [N] from input and gradient."""
    p = problem
    blocks = -(-p.g.channels // tile.outputs) * -(-p.a.channels // tile.channels)
    programs = blocks * p.kernel[0] * p.kernel[1] * -(-p.kernel[2] // tile.taps)
    fixed = (
        *(p.a.channels, p.g.channels, p.a.spatial, p.g.spatial, p.a.stride, p.g.stride),
        *(p.kernel, p.step, p.pad, p.gap, tile.block, tile.channels, tile.outputs),
        *(tile.taps, tile.flip, covers(p.g.spatial, tile.block)),
        *(covers([p.a.channels], [tile.channels]), covers([p.g.channels], [tile.outputs])),
        precision,
    )
    launch = Launch(_rows, p.samples * programs, fixed, tile.warps, tile.stages)

    def run(a: Tensor, g: Tensor) -> Tensor:
        shares = empty(g, p.samples, programs)
        launch(a, g, shares)
        return add_up(shares)

    return run


@triton.jit  # type: ignore[untyped-decorator]
def _add_tap(
    total: tl.tensor,
    right: tl.tensor,
    a: tl.tensor,
    x: tl.tensor,
    inside: tl.tensor,
    c_inside: tl.tensor,
    width: tl.tensor,
    padded: tl.constexpr,
    whole_c: tl.constexpr,
    flip: tl.constexpr,
    precision: tl.constexpr,
) -> tl.tensor:
    """Add to a tile of the gradient what one tap sees of the input, [T, C] at ``a``."""
    if padded:
        inside = inside & (x >= 0) & (x < width)
    mask = inside[:, None]
    if not whole_c:
        mask = mask & c_inside[None, :]
    left = tl.load(a, mask=mask, other=0.0)
    if flip:
        total = tl.dot(tl.trans(left), tl.trans(right), total, input_precision=precision)
    else:
        total = tl.dot(right, left, total, input_precision=precision)
    return total


@triton.jit  # type: ignore[untyped-decorator]
def _rows(  # noqa: C901, PLR0915 - one pass over registers
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
    block_c: tl.constexpr,
    block_o: tl.constexpr,
    taps: tl.constexpr,
    flip: tl.constexpr,
    whole_t: tl.constexpr,
    whole_c: tl.constexpr,
    whole_o: tl.constexpr,
    precision: tl.constexpr,
) -> None:
    """Make up to three tiles of C by O, for neighbouring taps in a row of the kernel."""
    blocks_c = tl.cdiv(channels, block_c)
    blocks_o = tl.cdiv(outputs, block_o)
    groups: tl.constexpr = (kernel[2] + taps - 1) // taps
    per_sample = blocks_o * blocks_c * (groups * kernel[1] * kernel[0])
    n = (tl.program_id(0) // per_sample).to(tl.int64)
    rest = tl.program_id(0) % per_sample
    o = (rest % blocks_o) * block_o + tl.arange(0, block_o)
    rest = rest // blocks_o
    c = (rest % blocks_c) * block_c + tl.arange(0, block_c)
    rest = rest // blocks_c
    tap = (rest % groups) * taps
    row = rest // groups
    shift_x = tap * gap[2] - pad[2]
    shift_y = (row % kernel[1]) * gap[1] - pad[1]
    shift_z = (row // kernel[1]) * gap[0] - pad[0]

    positions: tl.constexpr = block[0] * block[1] * block[2]
    t = tl.arange(0, positions)
    dx = t % block[2]
    dy = t // block[2] % block[1]
    dz = t // (block[2] * block[1])
    g_tile = dz * g_stride[2] + dy * g_stride[3] + dx * g_stride[4]
    g_tile = g + n * g_stride[0] + (o[:, None] * g_stride[1] + g_tile[None, :])
    a_tile = dz * (step[0] * a_stride[2]) + dy * (step[1] * a_stride[3])
    a_tile = a_tile + dx * (step[2] * a_stride[4])
    a_tile = a + n * a_stride[0] + (a_tile[:, None] + c[None, :] * a_stride[1])
    c_inside = c < channels
    padded: tl.constexpr = pad[2] > 0

    tile_m: tl.constexpr = block_c if flip else block_o
    tile_n: tl.constexpr = block_o if flip else block_c
    first = tl.zeros((tile_m, tile_n), tl.float32)
    second = tl.zeros((tile_m, tile_n), tl.float32)
    third = tl.zeros((tile_m, tile_n), tl.float32)
    blocks_x = tl.cdiv(g_size[2], block[2])
    blocks_y = tl.cdiv(g_size[1], block[1])
    for at in range(blocks_x * blocks_y * tl.cdiv(g_size[0], block[0])):
        x0 = (at % blocks_x) * block[2]
        y0 = (at // blocks_x % blocks_y) * block[1]
        z0 = (at // (blocks_x * blocks_y)) * block[0]
        inside = tl.full((positions,), 1, tl.int1)
        if not whole_t:
            inside = inside & (x0 + dx < g_size[2]) & (y0 + dy < g_size[1])
            inside = inside & (z0 + dz < g_size[0])
        mask = inside[None, :]
        if not whole_o:
            mask = mask & (o < outputs)[:, None]
        start = z0 * g_stride[2] + y0 * g_stride[3] + x0 * g_stride[4]
        right = tl.load(g_tile + start, mask=mask, other=0.0)

        x0 = x0 * step[2] + shift_x
        y0 = y0 * step[1] + shift_y
        z0 = z0 * step[0] + shift_z
        if pad[1] > 0:
            inside = inside & (y0 + dy * step[1] >= 0) & (y0 + dy * step[1] < a_size[1])
        if pad[0] > 0:
            inside = inside & (z0 + dz * step[0] >= 0) & (z0 + dz * step[0] < a_size[0])
        x = x0 + dx * step[2]
        here = a_tile + (z0 * a_stride[2] + y0 * a_stride[3] + x0 * a_stride[4])
        first = _add_tap(
            first, right, here, x, inside, c_inside, a_size[2], padded, whole_c, flip, precision
        )
        if taps > 1:
            if kernel[2] % taps != 0:
                inside = inside & (tap + 1 < kernel[2])
            x += gap[2]
            here += gap[2] * a_stride[4]
            second = _add_tap(
                second,
                right,
                here,
                x,
                inside,
                c_inside,
                a_size[2],
                padded,
                whole_c,
                flip,
                precision,
            )
        if taps > 2:
            if kernel[2] % taps != 0:
                inside = inside & (tap + 2 < kernel[2])
            x += gap[2]
            here += gap[2] * a_stride[4]
            third = _add_tap(
                third, right, here, x, inside, c_inside, a_size[2], padded, whole_c, flip, precision
            )
    squares = first * first
    if taps > 1:
        squares += second * second
    if taps > 2:
        squares += third * third
    tl.store(out + tl.program_id(0), tl.sum(squares))
