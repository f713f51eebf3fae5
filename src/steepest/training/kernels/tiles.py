"""How the kernels for batch normalisation share out the rows and channels of a tensor."""

from __future__ import annotations

from dataclasses import dataclass

_SUMMING = 256
"""Programs that make sums: about two for each processor of a large GPU."""

_CHANNELS = 32
_SUMMED_ROWS = 128
_MANY_ROWS = 16384


@dataclass(frozen=True)
class Choice:
    """What was found to be fast.

    Attributes:
        parts: Programs that share the rows of one tensor: all that use the sums must add up as
            many.
        sum_warps: Groups of 32 threads that make sums.
        unroll: Reads under way at a time where sums are made.
        applied_rows: Rows of one program that uses the sums, for each 32 channels.
        warps: Groups of 32 threads that use them.
    """

    parts: int
    sum_warps: int
    unroll: int
    applied_rows: int
    warps: int


MANY_ROWS = Choice(128, 8, 2, 512, 8)
FEW_ROWS = Choice(128, 4, 4, 256, 4)


@dataclass(frozen=True)
class Tile:
    """One program's share.

    Attributes:
        channels: Channels of one program, a power of two.
        columns: Programs side by side, so that all channels are covered.
        summed_rows: Rows read at a time where sums are made, a power of two.
        share_rows: Rows of one program that makes sums.
        parts: Programs below each other that make sums.
        unroll: Reads under way at a time where sums are made.
        sum_warps: Groups of 32 threads that make sums.
        applied_rows: Rows of one program that uses the sums, a power of two.
        warps: Groups of 32 threads that use them.
    """

    channels: int
    columns: int
    summed_rows: int
    share_rows: int
    parts: int
    unroll: int
    sum_warps: int
    applied_rows: int
    warps: int

    @property
    def block_parts(self) -> int:
        """The number of parts as a power of two."""
        return power_above(self.parts)


def tile_for(rows: int, channels: int, choice: Choice | None = None) -> Tile:
    """Choose the tile for a tensor of [rows, channels]."""
    if choice is None:
        choice = MANY_ROWS if rows >= _MANY_ROWS else FEW_ROWS
    wide = min(power_above(channels), _CHANNELS if channels <= 128 else 2 * _CHANNELS)
    columns = -(-channels // wide)
    summed = min(power_above(rows), _SUMMED_ROWS * _CHANNELS // wide)
    applied = min(power_above(rows), max(16, choice.applied_rows * _CHANNELS // wide))
    parts = max(1, min(choice.parts, _SUMMING // columns))
    share = -(-rows // (parts * summed)) * summed
    return Tile(
        channels=wide,
        columns=columns,
        summed_rows=summed,
        share_rows=share,
        parts=-(-rows // share),
        unroll=choice.unroll,
        sum_warps=choice.sum_warps,
        applied_rows=applied,
        warps=choice.warps,
    )


def power_above(size: int) -> int:
    """Return the least power of two that is not below a size."""
    return 1 << max(0, size - 1).bit_length()
