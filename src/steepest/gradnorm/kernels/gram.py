"""Squared norms of the weight's gradient from products of pairs of positions.

‖Σ_t g_t a_tᵀ‖² = Σ_{s,t} (a_s·a_t)(g_s·g_t): cheaper than the gradient itself where there are
few positions. Both matrices of products are symmetric, so that only the blocks on and above the
diagonal are made, in registers.
"""

from __future__ import annotations

import triton  # type: ignore[import-untyped]
import triton.language as tl  # type: ignore[import-untyped]
from torch import Tensor

from steepest.gradnorm.kernels.launch import Launch, PairRun, add_up, empty
from steepest.gradnorm.kernels.shapes import Problem, covers
from steepest.gradnorm.kernels.tiles import GramTile


def plan_pairs(problem: Problem, tile: GramTile, precision: str) -> PairRun:
    """Return a function that computes the squared norms [N], and them if no terms cancelled [N]."""
    p = problem
    blocks = -(-p.positions // tile.positions)
    pairs = blocks * (blocks + 1) // 2
    fixed = (
        *(pairs, p.positions, p.a.channels, p.g.channels),
        *(p.a.spatial, p.g.spatial, p.a.stride, p.g.stride),
        *(p.kernel, p.step, p.pad, p.gap, tile.positions, tile.depth),
        *(pairs == 1, covers([p.positions], [tile.positions])),
        *(covers([p.a.channels], [tile.depth]), covers([p.g.channels], [tile.depth])),
        precision,
    )
    launch = Launch(_pairs, p.samples * pairs, fixed, tile.warps, tile.stages)

    def run(a: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
        total, size = empty(g, p.samples, pairs), empty(g, p.samples, pairs)
        launch(a, g, total, size)
        size = add_up(size)
        return add_up(total), size if pairs == 1 else size.square()

    return run


@triton.jit  # type: ignore[untyped-decorator]
def _pairs(  # noqa: PLR0915 - one pass over registers
    a: tl.tensor,
    g: tl.tensor,
    totals: tl.tensor,
    sizes: tl.tensor,
    pairs: tl.tensor,
    positions: tl.tensor,
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
    block_t: tl.constexpr,
    block_k: tl.constexpr,
    single: tl.constexpr,
    whole_t: tl.constexpr,
    whole_c: tl.constexpr,
    whole_o: tl.constexpr,
    precision: tl.constexpr,
) -> None:
    """Sum the products over one pair of blocks of positions."""
    n = (tl.program_id(0) // pairs).to(tl.int64)
    pair = tl.program_id(0) % pairs
    lower = 0
    upper = 0
    if not single:
        # Pairs are counted column by column of the upper triangle.
        upper = ((tl.sqrt(8.0 * pair + 1.0) - 1.0) * 0.5).to(tl.int32)
        # The root is rounded and may fall on the wrong side of a whole number.
        upper = tl.where((upper + 1) * (upper + 2) // 2 <= pair, upper + 1, upper)
        upper = tl.where(upper * (upper + 1) // 2 > pair, upper - 1, upper)
        lower = pair - upper * (upper + 1) // 2
    t = tl.arange(0, block_t)
    s = lower * block_t + t
    t = upper * block_t + t
    k = tl.arange(0, block_k)
    a += n * a_stride[0]
    g += n * g_stride[0]

    inputs = tl.zeros((block_t, block_t), tl.float32)
    left_x, left_y, left_z = _place(s, g_size, step, pad)
    right_x, right_y, right_z = _place(t, g_size, step, pad)
    left = left_z * a_stride[2] + left_y * a_stride[3] + left_x * a_stride[4]
    right = right_z * a_stride[2] + right_y * a_stride[3] + right_x * a_stride[4]
    left = a + (left[:, None] + k[None, :] * a_stride[1])
    right = a + (right[:, None] + k[None, :] * a_stride[1])
    blocks_c = tl.cdiv(channels, block_k)
    for at in range(blocks_c * (kernel[0] * kernel[1] * kernel[2])):
        tap = at // blocks_c
        c = (at % blocks_c) * block_k
        x = tap % kernel[2] * gap[2]
        y = tap // kernel[2] % kernel[1] * gap[1]
        z = tap // (kernel[2] * kernel[1]) * gap[0]
        start = z * a_stride[2] + y * a_stride[3] + x * a_stride[4] + c * a_stride[1]
        there = k + c < channels
        seen = _seen(s < positions, left_x + x, left_y + y, left_z + z, a_size, pad, whole_t)
        rows = _masked(left + start, seen, there, whole_c)
        if single:
            inputs = tl.dot(rows, tl.trans(rows), inputs, input_precision=precision)
        else:
            seen = _seen(t < positions, right_x + x, right_y + y, right_z + z, a_size, pad, whole_t)
            columns = _masked(right + start, seen, there, whole_c)
            inputs = tl.dot(rows, tl.trans(columns), inputs, input_precision=precision)

    gradients = tl.zeros((block_t, block_t), tl.float32)
    left_x, left_y, left_z = _place(s, g_size, (1, 1, 1), (0, 0, 0))
    right_x, right_y, right_z = _place(t, g_size, (1, 1, 1), (0, 0, 0))
    left = left_z * g_stride[2] + left_y * g_stride[3] + left_x * g_stride[4]
    right = right_z * g_stride[2] + right_y * g_stride[3] + right_x * g_stride[4]
    left = g + (left[:, None] + k[None, :] * g_stride[1])
    right = g + (right[:, None] + k[None, :] * g_stride[1])
    for at in range(tl.cdiv(outputs, block_k)):
        there = k + at * block_k < outputs
        start = at * block_k * g_stride[1]
        seen = tl.full((block_t,), 1, tl.int1)
        if not whole_t:
            seen = s < positions
        rows = _masked(left + start, seen, there, whole_o)
        if single:
            gradients = tl.dot(rows, tl.trans(rows), gradients, input_precision=precision)
        else:
            if not whole_t:
                seen = t < positions
            columns = _masked(right + start, seen, there, whole_o)
            gradients = tl.dot(rows, tl.trans(columns), gradients, input_precision=precision)

    products = inputs * gradients
    total = tl.sum(products)
    diagonal = tl.sum(tl.where(s[:, None] == t[None, :], products, 0.0), axis=1)
    size = tl.sum(tl.sqrt(tl.maximum(diagonal, 0.0)))
    if single:
        size = size * size
    else:
        total = tl.where(lower == upper, total, 2.0 * total)
    tl.store(totals + tl.program_id(0), total)
    tl.store(sizes + tl.program_id(0), size)


@triton.jit  # type: ignore[untyped-decorator]
def _place(t: tl.tensor, size: tl.tuple, step: tl.constexpr, pad: tl.constexpr) -> tl.tensor:
    """Return x, y and z of the input under the kernel's first tap at output positions t."""
    x = t % size[2] * step[2] - pad[2]
    y = t // size[2] % size[1] * step[1] - pad[1]
    z = t // (size[2] * size[1]) * step[0] - pad[0]
    return x, y, z


@triton.jit  # type: ignore[untyped-decorator]
def _seen(
    there: tl.tensor,
    x: tl.tensor,
    y: tl.tensor,
    z: tl.tensor,
    size: tl.tuple,
    pad: tl.constexpr,
    whole_t: tl.constexpr,
) -> tl.tensor:
    """Say which positions read the input itself and not its padding."""
    seen = tl.full(x.shape, 1, tl.int1)
    if not whole_t:
        seen = there
    if pad[2] > 0:
        seen = seen & (x >= 0) & (x < size[2])
    if pad[1] > 0:
        seen = seen & (y >= 0) & (y < size[1])
    if pad[0] > 0:
        seen = seen & (z >= 0) & (z < size[0])
    return seen


@triton.jit  # type: ignore[untyped-decorator]
def _masked(
    pointers: tl.tensor, seen: tl.tensor, there: tl.tensor, is_whole: tl.constexpr
) -> tl.tensor:
    """Read a tile [T, K], zero outside."""
    mask = seen[:, None]
    if not is_whole:
        mask = mask & there[None, :]
    return tl.load(pointers, mask=mask, other=0.0)
