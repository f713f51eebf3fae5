"""Tile sizes by problem, as measured best on a Hopper GPU."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from steepest.gradnorm.kernels.shapes import Layout, Problem, Triple

_PROGRAMS = 128
"""How many programs keep a large GPU busy: about one for each of its processors."""

_LONG = 4096
"""From so many positions on, reading more of them at a time pays."""

_WASTE = 1.3
"""How many more numbers a tile may carry than half a tile would, to be used all the same."""

_DEPTH = 64
_HALF = 0.7
_SINGLE = 0.5
"""The time of a product of positions for each block that it reads, in multiplications.

Half precision is bound by what passes through the cache, and the gradient's tiles use each
number they read more often; single precision is bound by multiplying.
"""


@dataclass(frozen=True)
class Tile:
    """One program's share of a weight gradient.

    Attributes:
        block: Positions that are read at a time, by dimension.
        channels: Channels of the input; channels and taps together where they are few.
        outputs: Channels of the output.
        taps: Neighbouring taps that share what was read of the output's gradient.
        flip: Whether the input's channels are the rows of the products.
        warps: Groups of 32 threads.
        stages: Reads under way at a time.
    """

    block: Triple
    channels: int
    outputs: int
    taps: int
    flip: bool
    warps: int
    stages: int


@dataclass(frozen=True)
class GramTile:
    """One program's share of the products of positions.

    Attributes:
        positions: Positions along both sides of the block.
        depth: Channels that are read at a time.
        warps: Groups of 32 threads.
        stages: Reads under way at a time.
    """

    positions: int
    depth: int
    warps: int
    stages: int


@dataclass(frozen=True)
class SumTile:
    """One program's share of sums over positions."""

    channels: int
    positions: int
    warps: int
    stages: int


def tile_for(problem: Problem, precision: str) -> Tile:
    """Choose the tile of a weight gradient."""
    p = problem
    if p.is_half:
        tile = _half_tile(p)
    elif precision == "ieee":
        tile = _tile(p, 32, 64, 64, 1, False, 4, 2)
    else:
        tile = _single_tile(p)
    return _spread(p, tile)


def _half_tile(p: Problem) -> Tile:
    taps = min(3, p.kernel[2])
    if p.g.channels <= 16:
        return _tile(p, 128, 64, 16, taps, False, 1, 3)
    if p.g.channels <= 32:
        return _tile(p, 64 if p.positions < _LONG else 128, 64, 32, taps, False, 2, 3)
    if p.a.channels >= 64 and fills_wide_tiles(p.g.channels):
        if p.taps == 1 and fills_wide_tiles(p.a.channels):
            return _tile(p, 64, 128, 128, 1, True, 4, 3)
        if p.is_channels_last:
            return _tile(p, 32, 64, 128, taps, True, 4, 4)
    return _tile(p, 64, 64, 64, taps, False, 4, 3)


def _single_tile(p: Problem) -> Tile:
    taps = min(3, p.kernel[2])
    if p.is_channels_last:
        # With one or two warps, the older tensor instructions are used: the newer ones would
        # have single precision transposed first.
        if p.g.channels <= 32 and p.positions < _LONG:
            return _tile(p, 32, 32, 32, taps, False, 1, 4)
        if p.g.channels <= 32:
            return _tile(p, 64, 32, 32, taps, False, 2, 3)
        if p.taps == 1 and fills_wide_tiles(p.a.channels):
            return _tile(p, 32, 128, 64, 1, False, 2, 2)
        return _tile(p, 16, 64, 64, taps, False, 2, 3)
    if p.a.channels >= 64 and fills_wide_tiles(p.g.channels):
        return _tile(p, 32, 64, 128, taps, True, 4, 2)
    return _tile(p, 32, 64, 64, taps, False, 4, 3)


def _spread(p: Problem, tile: Tile) -> Tile:
    """Cut a tile smaller where few samples would leave processors without a program."""
    while True:
        blocks = -(-p.a.channels // tile.channels) * -(-p.g.channels // tile.outputs)
        rows = p.kernel[0] * p.kernel[1] * -(-p.kernel[2] // tile.taps)
        if p.samples * blocks * rows >= _PROGRAMS:
            return tile
        # The rows of the products stay: tensor instructions want 64 of them.
        if tile.taps > 1:
            # What the other taps would have read goes into longer reads.
            positions = tile.block[0] * tile.block[1] * tile.block[2]
            tile = replace(tile, taps=1, block=block_of(p, 2 * positions))
        elif tile.flip and tile.outputs > 32:
            tile = replace(tile, outputs=tile.outputs // 2)
        elif not tile.flip and tile.channels > 32:
            tile = replace(tile, channels=tile.channels // 2)
        else:
            return tile


def narrow_tile_for(problem: Problem, precision: str) -> Tile:
    """Choose the tile where channels and taps are counted together."""
    fan_in = _fit(problem.a.channels * problem.taps, 64)
    if problem.is_half:
        return _tile(problem, 64, fan_in, 64, 1, False, 4, 3)
    return _tile(problem, 32, fan_in, 64, 1, False, 2 if precision == "tf32" else 4, 3)


def box_tile_for(problem: Problem) -> Tile:
    """Choose the tile for the copy engine."""
    # A short loop gains more from a third program on the same processor than from reading ahead.
    short = problem.taps == 1 and problem.positions <= 256
    return _tile(problem, 64, 128, 128, 1, True, 4, 2 if short else 3)


def gram_tile_for(problem: Problem, precision: str) -> GramTile:
    """Choose the tile of pairs of positions."""
    p = problem
    block = block_of_pairs(p.positions)
    if p.is_half:
        if block == 16:
            tile = GramTile(16, 128, 1, 4)
        elif 64 < p.positions <= 128:
            tile = GramTile(128, 64, 8, 4)
        else:
            tile = GramTile(block, 64, 4, 4)
    elif precision == "ieee":
        tile = GramTile(block, 64 if block == 16 else 32, 4, 2)
    elif block == 16:
        tile = GramTile(16, 64, 1, 4)
    else:
        tile = GramTile(block, 64, 4, 3) if p.is_channels_last else GramTile(block, 32, 4, 4)
    return replace(tile, depth=_fit(max(p.a.channels, p.g.channels), tile.depth))


def sum_tile_for(g: Layout, bytes_each: int) -> SumTile:
    """Choose the tile for sums over the positions of [N, C, 1, 1, T]."""
    channels, positions = g.channels, g.spatial[2]
    is_half = bytes_each == 2
    if g.stride[1] != 1:
        numbers = 4096 if is_half else 1024
        long = min(1024, _power(positions))
        return SumTile(min(_power(channels), max(1, numbers // long)), long, 4, 1)
    wide = min(64, _power(channels))
    if positions >= 512:
        return SumTile(wide, 128 if is_half else 64, 4, 1)
    # One warp alone sums without exchanging numbers between warps, the longest part of a short sum.
    return SumTile(wide, min(_power(positions), 32 if is_half or positions > 64 else 16), 1, 1)


def fills_wide_tiles(channels: int) -> bool:
    """Say whether tiles of 128 channels hardly waste more than tiles of 64."""
    return channels > 64 and -(-channels // 128) * 128 <= _WASTE * -(-channels // 64) * 64


def block_of_pairs(positions: int) -> int:
    """Return the side of a block of pairs."""
    return _fit(positions, 64)


def _tile(
    p: Problem,
    positions: int,
    channels: int,
    outputs: int,
    taps: int,
    flip: bool,
    warps: int,
    stages: int,
) -> Tile:
    if not p.is_narrow:
        channels = _fit(p.a.channels, channels)
    outputs = _fit(p.g.channels, outputs)
    return Tile(block_of(p, positions), channels, outputs, taps, flip, warps, stages)


def block_of(problem: Problem, positions: int) -> Triple:
    """Cut positions into blocks of a power of two that waste least at the borders."""
    depth, height, width = problem.g.spatial
    best = (1, 1, positions)
    least = None
    x = positions
    while x >= 1:
        y = positions // x
        while y >= 1:
            z = positions // (x * y)
            count = -(-width // x) * -(-height // y) * -(-depth // z)
            if least is None or count < least:
                best, least = (z, y, x), count
            y //= 2
        x //= 2
    return best


def _fit(size: int, most: int) -> int:
    """Return the power of two from 16, the least a tile may have, that holds a size."""
    return min(most, max(16, _power(size)))


def _power(size: int) -> int:
    """Return the least power of two that is not below a size."""
    return 1 << max(0, size - 1).bit_length()


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
