"""Adding up what programs found in their shares of the rows, always in the same order."""

from __future__ import annotations

import triton  # type: ignore[import-untyped]
import triton.language as tl  # type: ignore[import-untyped]


@triton.jit  # type: ignore[untyped-decorator]
def add_up(
    shares: tl.tensor,
    channels: tl.tensor,
    parts: tl.tensor,
    c: tl.tensor,
    inside: tl.tensor,
    block_p: tl.constexpr,
) -> tuple[tl.tensor, tl.tensor]:
    """Return two sums over all parts."""
    part = tl.arange(0, block_p)
    known = (part < parts)[:, None] & inside[None, :]
    entry = shares + part[:, None] * 2 * channels + c[None, :]
    first = tl.load(entry, mask=known, other=0.0)
    second = tl.load(entry + channels, mask=known, other=0.0)
    return tl.sum(first, axis=0), tl.sum(second, axis=0)


@triton.jit  # type: ignore[untyped-decorator]
def add_up_moments(
    shares: tl.tensor,
    rows: tl.tensor,
    channels: tl.tensor,
    share_rows: tl.tensor,
    parts: tl.tensor,
    c: tl.tensor,
    inside: tl.tensor,
    block_p: tl.constexpr,
) -> tuple[tl.tensor, tl.tensor]:
    """Return the mean of all rows and the summed squared distance from it."""
    part = tl.arange(0, block_p)
    known = (part < parts)[:, None] & inside[None, :]
    entry = shares + part[:, None] * 2 * channels + c[None, :]
    means = tl.load(entry, mask=known, other=0.0)
    distances = tl.load(entry + channels, mask=known, other=0.0)
    count = tl.minimum(share_rows, rows - part * share_rows).to(tl.float32)[:, None]
    mean = tl.sum(tl.where(known, means * count, 0.0), axis=0) / rows
    apart = means - mean[None, :]
    return mean, tl.sum(tl.where(known, distances + count * apart * apart, 0.0), axis=0)


@triton.jit  # type: ignore[untyped-decorator]
def make_one(
    shares: tl.tensor,
    out: tl.tensor,
    rows: tl.tensor,
    channels: tl.tensor,
    share_rows: tl.tensor,
    parts: tl.tensor,
    are_moments: tl.constexpr,
    block_p: tl.constexpr,
    block_c: tl.constexpr,
) -> None:
    """Write what one program would have found in all rows."""
    c = tl.program_id(0) * block_c + tl.arange(0, block_c)
    inside = c < channels
    if are_moments:
        first, second = add_up_moments(
            shares, rows, channels, share_rows, parts, c, inside, block_p
        )
    else:
        first, second = add_up(shares, channels, parts, c, inside, block_p)
    tl.store(out + c, first, mask=inside)
    tl.store(out + channels + c, second, mask=inside)
