"""Convolutions of images with few colours, which the libraries' kernels are slow at.

All taps of all colours are counted together, so that they fill a tensor core's products.
"""

from __future__ import annotations

import torch
import triton  # type: ignore[import-untyped]
import triton.language as tl  # type: ignore[import-untyped]
from torch import Tensor

from steepest.training.fast.kernels.tiles import power_above

_ROWS = 128
_PARTS = 256


def run_few_channels(x: Tensor, weight: Tensor, stride: int, padding: int) -> Tensor:
    """Do what ``formulas.few_channels`` does; channels are neighbours in both."""
    samples, _, height, width = x.shape
    outputs, _, kernel, _ = weight.shape
    size = [(s + 2 * padding - kernel) // stride + 1 for s in (height, width)]
    out = torch.empty(
        (samples, outputs, *size),
        dtype=x.dtype,
        device=x.device,
        memory_format=torch.channels_last,
    )
    rows = samples * size[0] * size[1]
    block_o = min(64, max(16, power_above(outputs)))
    _forward[-(-rows // _ROWS), -(-outputs // block_o)](
        *(x, weight, out, rows, height, width, *size, outputs),
        **_window(x, kernel, stride, padding),
        block_r=_ROWS,
        block_o=block_o,
        num_warps=4,
    )
    return out


def run_few_channels_weight(g: Tensor, x: Tensor, kernel: int, stride: int, padding: int) -> Tensor:
    """Do what ``formulas.few_channels_weight`` does; channels are neighbours in both."""
    samples, outputs, *size = g.shape
    channels, taps = x.shape[1], kernel * kernel * x.shape[1]
    rows = samples * size[0] * size[1]
    share = -(-rows // (_PARTS * _ROWS)) * _ROWS
    parts = -(-rows // share)
    shares = torch.empty((parts, outputs, taps), dtype=torch.float32, device=x.device)
    block_o = min(64, max(16, power_above(outputs)))
    _weight_shares[parts, -(-outputs // block_o)](
        *(g, x, shares, rows, share, x.shape[2], x.shape[3], *size, outputs),
        **_window(x, kernel, stride, padding),
        block_r=_ROWS,
        block_o=block_o,
        num_warps=4,
    )
    total = shares.sum(0).to(g.dtype)
    return total.view(outputs, kernel, kernel, channels).permute(0, 3, 1, 2)


def _window(x: Tensor, kernel: int, stride: int, padding: int) -> dict[str, int]:
    channels = x.shape[1]
    return {
        "channels": channels,
        "kernel": kernel,
        "stride": stride,
        "padding": padding,
        "block_k": max(16, power_above(channels * kernel * kernel)),
    }


@triton.jit  # type: ignore[untyped-decorator]
def _patches(
    x: tl.tensor,
    row: tl.tensor,
    rows: tl.tensor,
    height: tl.tensor,
    width: tl.tensor,
    out_height: tl.tensor,
    out_width: tl.tensor,
    channels: tl.constexpr,
    kernel: tl.constexpr,
    stride: tl.constexpr,
    padding: tl.constexpr,
    block_k: tl.constexpr,
) -> tl.tensor:
    """Return the inputs of the taps at some positions of the output."""
    k = tl.arange(0, block_k)
    sample = row // (out_height * out_width)
    place = row % (out_height * out_width)
    y = (place // out_width * stride - padding)[:, None] + (k // (channels * kernel))[None, :]
    z = (place % out_width * stride - padding)[:, None] + (k // channels % kernel)[None, :]
    seen = (row < rows)[:, None] & (k < channels * kernel * kernel)[None, :]
    seen = seen & (y >= 0) & (y < height) & (z >= 0) & (z < width)
    at = (sample.to(tl.int64)[:, None] * height + y) * width + z
    return tl.load(x + at * channels + (k % channels)[None, :], mask=seen, other=0.0)


@triton.jit  # type: ignore[untyped-decorator]
def _forward(
    x: tl.tensor,
    weight: tl.tensor,
    out: tl.tensor,
    rows: tl.tensor,
    height: tl.tensor,
    width: tl.tensor,
    out_height: tl.tensor,
    out_width: tl.tensor,
    outputs: tl.tensor,
    channels: tl.constexpr,
    kernel: tl.constexpr,
    stride: tl.constexpr,
    padding: tl.constexpr,
    block_k: tl.constexpr,
    block_r: tl.constexpr,
    block_o: tl.constexpr,
) -> None:
    row = tl.program_id(0) * block_r + tl.arange(0, block_r)
    o = tl.program_id(1) * block_o + tl.arange(0, block_o)
    k = tl.arange(0, block_k)
    patches = _patches(
        *(x, row, rows, height, width, out_height, out_width),
        *(channels, kernel, stride, padding, block_k),
    )
    taps: tl.constexpr = channels * kernel * kernel
    known = (k < taps)[:, None] & (o < outputs)[None, :]
    weights = tl.load(weight + o[None, :] * taps + k[:, None], mask=known, other=0.0)
    result = tl.dot(patches, weights)
    mask = (row < rows)[:, None] & (o < outputs)[None, :]
    tl.store(out + row.to(tl.int64)[:, None] * outputs + o[None, :], result, mask=mask)


@triton.jit  # type: ignore[untyped-decorator]
def _weight_shares(
    g: tl.tensor,
    x: tl.tensor,
    shares: tl.tensor,
    rows: tl.tensor,
    share_rows: tl.tensor,
    height: tl.tensor,
    width: tl.tensor,
    out_height: tl.tensor,
    out_width: tl.tensor,
    outputs: tl.tensor,
    channels: tl.constexpr,
    kernel: tl.constexpr,
    stride: tl.constexpr,
    padding: tl.constexpr,
    block_k: tl.constexpr,
    block_r: tl.constexpr,
    block_o: tl.constexpr,
) -> None:
    """Write the gradient that a share of the positions gives."""
    part = tl.program_id(0)
    o = tl.program_id(1) * block_o + tl.arange(0, block_o)
    k = tl.arange(0, block_k)
    first = part * share_rows
    last = tl.minimum(first + share_rows, rows)
    total = tl.zeros((block_o, block_k), tl.float32)
    for start in range(first, last, block_r):
        row = start + tl.arange(0, block_r)
        patches = _patches(
            *(x, row, last, height, width, out_height, out_width),
            *(channels, kernel, stride, padding, block_k),
        )
        mask = (row < last)[:, None] & (o < outputs)[None, :]
        at = row.to(tl.int64)[:, None] * outputs + o[None, :]
        gradient = tl.load(g + at, mask=mask, other=0.0)
        total += tl.dot(tl.trans(gradient), patches)
    taps: tl.constexpr = channels * kernel * kernel
    out = shares + (part * outputs + o)[:, None] * taps + k[None, :]
    tl.store(out, total, mask=(o < outputs)[:, None] & (k < taps)[None, :])
