"""How each problem is cut into tiles: what measured best on a GPU of the Hopper generation."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from steepest.gradnorm.kernels.shapes import Problem, Triple


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
    last, taps = p.is_channels_last, min(3, p.kernel[2])
    wide_in, wide_out = p.a.shape[1] >= 128, p.g.shape[1] >= 128
    if p.a.dtype != torch.float32:
        if wide_in and wide_out and p.taps == 1:
            return _tile(p, 64, 128, 128, 1, True, 4, 3)
        if wide_out and last and p.a.shape[1] >= 64:
            return _tile(p, 32, 64, 128, taps, True, 4, 4)
        return _tile(p, 64, 64, 64, taps, False, 4, 2)
    if precision == "ieee":
        return _tile(p, 32, 64, 64, 1, False, 4, 2)
    if last:
        # With two warps, the older tensor instructions are used: the newer ones would have
        # single precision transposed first.
        if wide_in and p.taps == 1:
            return _tile(p, 32, 128, 64, 1, False, 2, 2)
        return _tile(p, 16, 64, 64, taps, False, 2, 3)
    if wide_out and p.a.shape[1] >= 64:
        return _tile(p, 32, 64, 128, taps, True, 4, 2)
    return _tile(p, 32, 64, 64, taps, False, 4, 3)


def narrow_tile_for(problem: Problem, precision: str) -> Tile:
    """Choose the tile where channels and taps are counted together."""
    p = problem
    fan_in = _fit(p.a.shape[1] * p.taps, 64)
    if p.a.dtype != torch.float32:
        return _tile(p, 64, fan_in, 64, 1, False, 4, 3)
    return _tile(p, 32, fan_in, 64, 1, False, 2 if precision == "tf32" else 4, 3)


def box_tile_for(problem: Problem) -> Tile:
    """Choose the tile for the copy engine."""
    # A short loop gains more from a third program on the same processor than from reading ahead.
    short = problem.taps == 1 and problem.positions <= 256
    return _tile(problem, 64, 128, 128, 1, True, 4, 2 if short else 3)


def gram_tile_for(problem: Problem, precision: str) -> GramTile:
    """Choose the tile of pairs of positions."""
    p = problem
    block = block_of_pairs(p.positions)
    if p.a.dtype != torch.float32:
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
    return replace(tile, depth=_fit(max(p.a.shape[1], p.g.shape[1]), tile.depth))


def sum_tile_for(g: Tensor) -> SumTile:
    """Choose the tile for sums over the positions of [N, C, *S]."""
    channels, positions = g.shape[1], g.shape[2:].numel()
    if g.stride(1) == 1:
        wide = min(64, _power(channels))
        return SumTile(wide, min(_power(positions), 4096 // wide), 4, 3)
    long = min(1024, _power(positions))
    return SumTile(min(_power(channels), max(1, 4096 // long)), long, 4, 3)


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
        channels = _fit(p.a.shape[1], channels)
    outputs = _fit(p.g.shape[1], outputs)
    return Tile(block_of(p, positions), channels, outputs, taps, flip, warps, stages)


def block_of(problem: Problem, positions: int) -> Triple:
    """Cut positions into blocks of a power of two that waste least at the borders."""
    depth, height, width = problem.g.shape[2:]
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
