"""Tile sizes of the batch normalisation kernels."""

from __future__ import annotations

from dataclasses import dataclass

_ADDED_UP_FIRST = 64
"""More parts than this cost more to add up in every program than in their own kernel."""


@dataclass(frozen=True)
class Summing:
    """Tiling of sums over rows.

    Attributes:
        channels: Channels of one program, a power of two.
        size: Numbers read at a time, a power of two.
        warps: Groups of 32 threads.
        unroll: Reads under way at a time.
        programs: All together.
    """

    channels: int
    size: int
    warps: int
    unroll: int
    programs: int


@dataclass(frozen=True)
class Applying:
    """Tiling of the pass that applies the sums.

    Attributes:
        channels: Channels of one program, a power of two.
        size: Numbers of one program, a power of two.
        warps: Groups of 32 threads.
    """

    channels: int
    size: int
    warps: int


@dataclass(frozen=True)
class Choice:
    """Fast tilings, valid from a minimum number of rows.

    Attributes:
        rows: That number.
        moments: Where one tensor is read.
        gradients: Where two are.
        written: Where up to four are, and one is written.
        applying: Where sums are used.
    """

    rows: int
    moments: Summing
    gradients: Summing
    written: Summing
    applying: Applying


_MEDIUM = Summing(32, 4096, 8, 2, 256)
_SMALL = Summing(32, 4096, 8, 4, 256)
CHOICES = (
    Choice(
        65536,
        _MEDIUM,
        Summing(32, 2048, 4, 4, 512),
        Summing(64, 4096, 4, 2, 512),
        Applying(64, 8192, 4),
    ),
    Choice(16384, _MEDIUM, _MEDIUM, _MEDIUM, Applying(32, 8192, 4)),
    Choice(0, _SMALL, _SMALL, _SMALL, Applying(64, 8192, 4)),
)
"""Timed on an H200 for the layers of a ResNet-18; they are fixed, as they decide rounding."""


@dataclass(frozen=True)
class Sums:
    """The share of a program that makes sums.

    Attributes:
        channels: Channels of one program, a power of two.
        columns: Programs side by side, so that all channels are covered.
        block_rows: Rows read at a time, a power of two.
        rows: Rows of one program.
        parts: Programs below each other.
        unroll: Reads under way at a time.
        warps: Groups of 32 threads.
    """

    channels: int
    columns: int
    block_rows: int
    rows: int
    parts: int
    unroll: int
    warps: int

    @property
    def added_up_first(self) -> bool:
        """Whether partial sums are added up by their own kernel."""
        return self.parts > _ADDED_UP_FIRST


@dataclass(frozen=True)
class Part:
    """The share of a program that uses sums.

    Attributes:
        channels: Channels of one program, a power of two.
        columns: Programs side by side, so that all channels are covered.
        rows: Rows of one program, a power of two.
        programs: Programs below each other.
        warps: Groups of 32 threads.
    """

    channels: int
    columns: int
    rows: int
    programs: int
    warps: int


def choice_for(rows: int) -> Choice:
    """Return fast tile sizes for tensors of so many rows."""
    return next(choice for choice in CHOICES if rows >= choice.rows)


def sums_for(rows: int, channels: int, how: Summing) -> Sums:
    """Share out a tensor of [rows, channels] among programs that make sums."""
    wide = min(power_above(channels), how.channels)
    columns = -(-channels // wide)
    block = min(power_above(rows), how.size // wide)
    share = -(-rows // (max(1, how.programs // columns) * block)) * block
    return Sums(
        channels=wide,
        columns=columns,
        block_rows=block,
        rows=share,
        parts=-(-rows // share),
        unroll=how.unroll,
        warps=how.warps,
    )


def part_for(rows: int, channels: int, how: Applying) -> Part:
    """Share out a tensor of [rows, channels] among programs that use sums."""
    wide = min(power_above(channels), how.channels)
    block = min(power_above(rows), how.size // wide)
    return Part(
        channels=wide,
        columns=-(-channels // wide),
        rows=block,
        programs=-(-rows // block),
        warps=how.warps,
    )


def power_above(size: int) -> int:
    """Return the least power of two that is not below a size."""
    return 1 << max(0, size - 1).bit_length()
