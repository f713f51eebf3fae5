"""Squared norms of the weight's gradient, read by the copy engine of newer GPUs.

Where channels come last and the kernel moves by single steps, what a tap sees of the input is a
box of it. The engine fetches a whole box at once and writes zeros where it hangs over the
border, which leaves the threads nothing to do but multiply.
"""

from __future__ import annotations

import torch
import triton  # type: ignore[import-untyped]
import triton.language as tl  # type: ignore[import-untyped]
from torch import Tensor
from triton.tools.tensor_descriptor import TensorDescriptor  # type: ignore[import-untyped]

from steepest.gradnorm.kernels.launch import Launch, Run, add_up, empty
from steepest.gradnorm.kernels.shapes import Layout, Problem
from steepest.gradnorm.kernels.tiles import Tile, fills_wide_tiles

_ALIGNED_BYTES = 16
_FIRST_WITH_ENGINE = (9, 0)


def fits_bulk_copies(problem: Problem, device: torch.device) -> bool:
    """Say whether the copy engine of a device can read a problem, and is worth it."""
    p = problem
    if not (p.is_half and p.is_aligned and p.step == (1, 1, 1)):
        return False
    if device.type == "cuda" and torch.cuda.get_device_capability(device) < _FIRST_WITH_ENGINE:
        return False
    wide = fills_wide_tiles(p.a.channels) and fills_wide_tiles(p.g.channels)
    return wide and all(_is_readable(x, p.dtype.itemsize) for x in (p.a, p.g))


def plan_boxes(problem: Problem, tile: Tile) -> Run:
    """Return a function that computes the squared norms [N] from input and gradient."""
    p = problem
    blocks_c, blocks_o = -(-p.a.channels // tile.channels), -(-p.g.channels // tile.outputs)
    programs = blocks_c * blocks_o * p.taps
    is_deep = p.g.spatial[0] > 1 or p.kernel[0] > 1
    fixed = (
        *(p.g.spatial, blocks_c, blocks_o, p.kernel, p.pad, p.gap),
        *(tile.block, tile.channels, tile.outputs, is_deep),
    )
    launch = Launch(_boxes, p.samples * programs, fixed, tile.warps, tile.stages)
    a_view = _view(p.a, [1, *tile.block, tile.channels], is_deep)
    g_view = _view(p.g, [1, *tile.block, tile.outputs], is_deep)

    def run(a: Tensor, g: Tensor) -> Tensor:
        shares = empty(g, p.samples, programs)
        launch(TensorDescriptor(a, *a_view), TensorDescriptor(g, *g_view), shares)
        return add_up(shares)

    return run


def _is_readable(x: Layout, bytes_each: int) -> bool:
    strides = [s for size, s in zip(x.shape, x.stride, strict=True) if size > 1]
    regular = all(s == 1 or (s > 0 and s * bytes_each % _ALIGNED_BYTES == 0) for s in strides)
    return x.stride[1] == 1 and regular


def _view(x: Layout, box: list[int], is_deep: bool) -> tuple[list[int], list[int], list[int]]:
    """Return sizes, strides and box with the channels last; without depth where there is none."""
    sizes = [x.shape[d] for d in (0, 2, 3, 4, 1)]
    strides = [x.stride[d] for d in (0, 2, 3, 4, 1)]
    for d in (3, 2, 1, 0):
        if sizes[d] == 1:
            # The stride of a single row means nothing to torch, but must be aligned here.
            strides[d] = strides[d + 1] * sizes[d + 1]
    if not is_deep:
        del sizes[1], strides[1], box[1]
    return sizes, strides, box


@triton.jit  # type: ignore[untyped-decorator]
def _boxes(
    a: tl.tensor_descriptor,
    g: tl.tensor_descriptor,
    out: tl.tensor,
    size: tl.tuple,
    blocks_c: tl.tensor,
    blocks_o: tl.tensor,
    kernel: tl.constexpr,
    pad: tl.constexpr,
    gap: tl.constexpr,
    block: tl.constexpr,
    block_c: tl.constexpr,
    block_o: tl.constexpr,
    is_deep: tl.constexpr,
) -> None:
    """Make a tile of C by O for one tap of the kernel."""
    taps: tl.constexpr = kernel[0] * kernel[1] * kernel[2]
    per_sample = blocks_c * blocks_o * taps
    n = tl.program_id(0) // per_sample
    rest = tl.program_id(0) % per_sample
    o = (rest % blocks_o) * block_o
    rest = rest // blocks_o
    c = (rest % blocks_c) * block_c
    tap = rest // blocks_c
    shift_x = tap % kernel[2] * gap[2] - pad[2]
    shift_y = tap // kernel[2] % kernel[1] * gap[1] - pad[1]
    shift_z = tap // (kernel[2] * kernel[1]) * gap[0] - pad[0]
    positions: tl.constexpr = block[0] * block[1] * block[2]
    total = tl.zeros((block_c, block_o), tl.float32)
    blocks_x = tl.cdiv(size[2], block[2])
    blocks_y = tl.cdiv(size[1], block[1])
    for at in range(blocks_x * blocks_y * tl.cdiv(size[0], block[0])):
        x = (at % blocks_x) * block[2]
        y = (at // blocks_x % blocks_y) * block[1]
        if is_deep:
            z = (at // (blocks_x * blocks_y)) * block[0]
            right = g.load([n, z, y, x, o])
            left = a.load([n, z + shift_z, y + shift_y, x + shift_x, c])
        else:
            right = g.load([n, y, x, o])
            left = a.load([n, y + shift_y, x + shift_x, c])
        left = tl.trans(left.reshape(positions, block_c))
        total = tl.dot(left, right.reshape(positions, block_o), total)
    tl.store(out + tl.program_id(0), tl.sum(total * total))
