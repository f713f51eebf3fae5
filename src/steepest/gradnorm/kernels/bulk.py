"""Squared norms of the weight's gradient, read by the copy engine of newer GPUs.

Where channels come last and the kernel moves by single steps, what a tap sees of the input is a
box of it. The engine fetches a whole box at once and writes zeros where it hangs over the
border, which leaves the threads nothing to do but multiply.
"""

from __future__ import annotations

from typing import Any

import torch
import triton  # type: ignore[import-untyped]
import triton.language as tl  # type: ignore[import-untyped]
from torch import Tensor
from triton.tools.tensor_descriptor import TensorDescriptor  # type: ignore[import-untyped]

from steepest.gradnorm.kernels.shapes import Problem, add_up
from steepest.gradnorm.kernels.tiles import Tile

_WIDE = 128
_ALIGNED_BYTES = 16
_FIRST_WITH_ENGINE = (9, 0)


def fits_bulk_copies(problem: Problem) -> bool:
    """Say whether the copy engine can read a problem, and is worth it."""
    p = problem
    if p.a.dtype == torch.float32 or p.step != (1, 1, 1):
        return False
    if p.a.is_cuda and torch.cuda.get_device_capability(p.a.device) < _FIRST_WITH_ENGINE:
        return False
    return all(x.shape[1] >= _WIDE and _is_aligned(x) for x in (p.a, p.g))


def squares_by_boxes(problem: Problem, tile: Tile) -> Tensor:
    """Return the squared norms [N] of a problem's weight gradients."""
    p = problem
    blocks_c, blocks_o = -(-p.a.shape[1] // tile.channels), -(-p.g.shape[1] // tile.outputs)
    programs = blocks_c * blocks_o * p.taps
    out = torch.empty((len(p.g), programs), dtype=torch.float32, device=p.g.device)
    is_deep = p.g.shape[2] > 1 or p.kernel[0] > 1
    _boxes[(len(p.g) * programs,)](
        *(_described(p.a, tile.block, tile.channels, is_deep),),
        *(_described(p.g, tile.block, tile.outputs, is_deep), out),
        *(tuple(p.g.shape[2:]), blocks_c, blocks_o),
        *(p.kernel, p.pad, p.gap, tile.block, tile.channels, tile.outputs),
        is_deep=is_deep,
        num_warps=tile.warps,
        num_stages=tile.stages,
    )
    return add_up(out)


def _is_aligned(x: Tensor) -> bool:
    strides = [s for size, s in zip(x.shape, x.stride(), strict=True) if size > 1]
    return (
        x.stride(1) == 1
        and x.data_ptr() % _ALIGNED_BYTES == 0
        and all(s == 1 or (s > 0 and s * x.element_size() % _ALIGNED_BYTES == 0) for s in strides)
    )


def _described(x: Tensor, block: tuple[int, ...], channels: int, is_deep: bool) -> Any:
    x = x.permute(0, 2, 3, 4, 1)
    sizes, strides = list(x.shape), list(x.stride())
    for d in (3, 2, 1, 0):
        if sizes[d] == 1:
            # The stride of a single row means nothing to torch, but must be aligned here.
            strides[d] = strides[d + 1] * sizes[d + 1]
    box = [1, *block, channels]
    if not is_deep:
        del sizes[1], strides[1], box[1]
    return TensorDescriptor(x, sizes, strides, box)


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
