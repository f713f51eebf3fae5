"""Chooses the faster of two exact formulas on a GPU."""

from __future__ import annotations

import torch

from steepest.gradnorm.kernels.tiles import block_of_pairs

_DEPTH = 64
_HALF = 0.7
_SINGLE = 0.5
"""The time of a product of positions for each block that it reads, in multiplications.

Half precision is bound by what passes through the cache, and the gradient's tiles use each
number they read more often; single precision is bound by multiplying.
"""


def prefer_gram(
    positions: int,
    fan_in: int,
    fan_out: int,
    taps: int,
    dtype: torch.dtype = torch.bfloat16,
) -> bool:
    """Say whether products of pairs of positions are faster than the gradient in tiles.

    Args:
        positions: Output positions T of a sample.
        fan_in: Inputs of one output: channels times taps.
        fan_out: Channels of the output.
        taps: Positions of the kernel; 1 for a linear layer.
        dtype: Of input and gradient.
    """
    block = block_of_pairs(positions)
    blocks = -(-positions // block)
    pairs = blocks * (blocks + 1) // 2
    # Taps are taken one by one, each with its channels filled up to the depth of a tile.
    depth = taps * max(_DEPTH, fan_in // taps)
    reads = 1 if blocks == 1 else 2
    cost = reads * (_SINGLE if dtype == torch.float32 else _HALF)
    return cost * pairs * block**2 * (depth + fan_out) < positions * fan_in * fan_out
