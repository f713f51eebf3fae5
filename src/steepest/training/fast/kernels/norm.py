"""Batch normalisation as kernels: each reads its tensors once, channels being neighbours.

Sums over the batch are made in two steps: every program writes the sum of its share of the rows,
and every program of the kernel that follows adds up all shares of its channels. Where there are
many, a small kernel between them makes one share of all. Nothing depends on the order in which
programs run, so that the same input gives the same bits.
"""

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


@triton.jit  # type: ignore[untyped-decorator]
def moments(
    x: tl.tensor,
    shares: tl.tensor,
    rows: tl.tensor,
    channels: tl.tensor,
    share_rows: tl.tensor,
    unroll: tl.constexpr,
    block_r: tl.constexpr,
    block_c: tl.constexpr,
) -> None:
    """Write the mean and the summed squared distance from it, for a share of the rows."""
    part = tl.program_id(0)
    c = tl.program_id(1) * block_c + tl.arange(0, block_c)
    inside = c < channels
    first = part * share_rows
    last = tl.minimum(first + share_rows, rows)
    mean, distance = sum_moments(x, first, last, channels, c, inside, unroll, block_r, block_c)
    out = shares + part * 2 * channels + c
    tl.store(out, mean, mask=inside)
    tl.store(out + channels, distance, mask=inside)


@triton.jit  # type: ignore[untyped-decorator]
def sum_moments(
    x: tl.tensor,
    first: tl.tensor,
    last: tl.tensor,
    channels: tl.tensor,
    c: tl.tensor,
    inside: tl.tensor,
    unroll: tl.constexpr,
    block_r: tl.constexpr,
    block_c: tl.constexpr,
) -> tuple[tl.tensor, tl.tensor]:
    """Return the mean of some rows and the summed squared distance from it."""
    # Taken relative to one of the values, as squares of large numbers would drown the variance.
    shift = tl.load(x + first.to(tl.int64) * channels + c, mask=inside, other=0.0).to(tl.float32)
    total = tl.zeros((block_r, block_c), tl.float32)
    squares = tl.zeros((block_r, block_c), tl.float32)
    for start in tl.range(first, last, block_r, loop_unroll_factor=unroll):
        row = start + tl.arange(0, block_r)
        mask = (row < last)[:, None] & inside[None, :]
        at = row.to(tl.int64)[:, None] * channels + c[None, :]
        value = tl.load(x + at, mask=mask, other=0.0).to(tl.float32)
        value = tl.where(mask, value - shift[None, :], 0.0)
        total += value
        squares += value * value
    summed = tl.sum(total, axis=0)
    mean = summed / (last - first)
    return shift + mean, tl.sum(squares, axis=0) - summed * mean


@triton.jit  # type: ignore[untyped-decorator]
def normalise(
    x: tl.tensor,
    shares: tl.tensor,
    weight: tl.tensor,
    bias: tl.tensor,
    residual: tl.tensor,
    out: tl.tensor,
    mean_out: tl.tensor,
    inverse_out: tl.tensor,
    running_mean: tl.tensor,
    running_var: tl.tensor,
    momentum: tl.tensor,
    eps: tl.tensor,
    rows: tl.tensor,
    channels: tl.tensor,
    share_rows: tl.tensor,
    parts: tl.tensor,
    has_residual: tl.constexpr,
    relu: tl.constexpr,
    block_p: tl.constexpr,
    block_r: tl.constexpr,
    block_c: tl.constexpr,
) -> None:
    """Add up the shares of ``moments`` and normalise some of the rows."""
    c = tl.program_id(1) * block_c + tl.arange(0, block_c)
    inside = c < channels
    row = tl.program_id(0) * block_r + tl.arange(0, block_r)
    mask = (row < rows)[:, None] & inside[None, :]
    at = row.to(tl.int64)[:, None] * channels + c[None, :]
    # Asked for first, to be under way while the shares are added up.
    value = tl.load(x + at, mask=mask, other=0.0)
    if has_residual:
        more = tl.load(residual + at, mask=mask, other=0.0)
    mean, distance = add_up_moments(shares, rows, channels, share_rows, parts, c, inside, block_p)
    inverse = 1.0 / tl.sqrt(distance / rows + eps)
    if tl.program_id(0) == 0:
        keep_statistics(
            *(mean, distance, inverse, mean_out, inverse_out, running_mean, running_var),
            *(momentum, rows, c, inside),
        )
    scale = tl.load(weight + c, mask=inside, other=0.0) * inverse
    shift = tl.load(bias + c, mask=inside, other=0.0)
    result = (value.to(tl.float32) - mean[None, :]) * scale[None, :] + shift[None, :]
    if has_residual:
        result += more.to(tl.float32)
    if relu:
        # Not a maximum, which would hide NaN.
        result = tl.where(result <= 0.0, 0.0, result)
    tl.store(out + at, result, mask=mask)


@triton.jit  # type: ignore[untyped-decorator]
def keep_statistics(
    mean: tl.tensor,
    distance: tl.tensor,
    inverse: tl.tensor,
    mean_out: tl.tensor,
    inverse_out: tl.tensor,
    running_mean: tl.tensor,
    running_var: tl.tensor,
    momentum: tl.tensor,
    rows: tl.tensor,
    c: tl.tensor,
    inside: tl.tensor,
) -> None:
    """Write what the backward pass needs, and move the running statistics."""
    tl.store(mean_out + c, mean, mask=inside)
    tl.store(inverse_out + c, inverse, mask=inside)
    old_mean = tl.load(running_mean + c, mask=inside, other=0.0)
    old_var = tl.load(running_var + c, mask=inside, other=0.0)
    new_mean = old_mean + momentum * (mean - old_mean)
    new_var = old_var + momentum * (distance / (rows - 1) - old_var)
    tl.store(running_mean + c, new_mean, mask=inside)
    tl.store(running_var + c, new_var, mask=inside)


@triton.jit  # type: ignore[untyped-decorator]
def gradient_sums(
    first_g: tl.tensor,
    second_g: tl.tensor,
    x: tl.tensor,
    result: tl.tensor,
    mean: tl.tensor,
    inverse: tl.tensor,
    weight: tl.tensor,
    bias: tl.tensor,
    kept: tl.tensor,
    shares: tl.tensor,
    rows: tl.tensor,
    channels: tl.tensor,
    share_rows: tl.tensor,
    has_second: tl.constexpr,
    has_result: tl.constexpr,
    relu: tl.constexpr,
    keep: tl.constexpr,
    unroll: tl.constexpr,
    block_r: tl.constexpr,
    block_c: tl.constexpr,
) -> None:
    """Write Σ g and Σ g·(x − mean) for a share of the rows, and g itself if it is kept."""
    part = tl.program_id(0)
    c = tl.program_id(1) * block_c + tl.arange(0, block_c)
    inside = c < channels
    first = part * share_rows
    last = tl.minimum(first + share_rows, rows)
    total, products = sum_gradients(
        *(first_g, second_g, x, result, mean, inverse, weight, bias, kept),
        *(first, last, channels, c, inside),
        *(has_second, has_result, relu, keep, unroll, block_r, block_c),
    )
    out = shares + part * 2 * channels + c
    tl.store(out, total, mask=inside)
    tl.store(out + channels, products, mask=inside)


@triton.jit  # type: ignore[untyped-decorator]
def sum_gradients(
    first_g: tl.tensor,
    second_g: tl.tensor,
    x: tl.tensor,
    result: tl.tensor,
    mean: tl.tensor,
    inverse: tl.tensor,
    weight: tl.tensor,
    bias: tl.tensor,
    kept: tl.tensor,
    first: tl.tensor,
    last: tl.tensor,
    channels: tl.tensor,
    c: tl.tensor,
    inside: tl.tensor,
    has_second: tl.constexpr,
    has_result: tl.constexpr,
    relu: tl.constexpr,
    keep: tl.constexpr,
    unroll: tl.constexpr,
    block_r: tl.constexpr,
    block_c: tl.constexpr,
) -> tuple[tl.tensor, tl.tensor]:
    """Return Σ g and Σ g·(x − mean) of some rows, and write g itself if it is kept."""
    centre = tl.load(mean + c, mask=inside, other=0.0)
    scale = tl.load(weight + c, mask=inside, other=0.0) * tl.load(
        inverse + c, mask=inside, other=0.0
    )
    shift = tl.load(bias + c, mask=inside, other=0.0)
    total = tl.zeros((block_r, block_c), tl.float32)
    products = tl.zeros((block_r, block_c), tl.float32)
    for start in tl.range(first, last, block_r, loop_unroll_factor=unroll):
        row = start + tl.arange(0, block_r)
        mask = (row < last)[:, None] & inside[None, :]
        at = row.to(tl.int64)[:, None] * channels + c[None, :]
        g = tl.load(first_g + at, mask=mask, other=0.0).to(tl.float32)
        value = tl.load(x + at, mask=mask, other=0.0).to(tl.float32) - centre[None, :]
        if has_second:
            g += tl.load(second_g + at, mask=mask, other=0.0).to(tl.float32)
        if relu:
            if has_result:
                before = tl.load(result + at, mask=mask, other=0.0).to(tl.float32)
            else:
                before = value * scale[None, :] + shift[None, :]
            g = tl.where(before <= 0.0, 0.0, g)
        if keep:
            tl.store(kept + at, g, mask=mask)
        g = tl.where(mask, g, 0.0)
        total += g
        products += g * value
    return tl.sum(total, axis=0), tl.sum(products, axis=0)


@triton.jit  # type: ignore[untyped-decorator]
def gradient_of_x(
    g: tl.tensor,
    x: tl.tensor,
    shares: tl.tensor,
    mean: tl.tensor,
    inverse: tl.tensor,
    weight: tl.tensor,
    bias: tl.tensor,
    x_out: tl.tensor,
    weight_out: tl.tensor,
    bias_out: tl.tensor,
    rows: tl.tensor,
    channels: tl.tensor,
    parts: tl.tensor,
    relu: tl.constexpr,
    block_p: tl.constexpr,
    block_r: tl.constexpr,
    block_c: tl.constexpr,
) -> None:
    """Add up the shares of ``gradient_sums`` and write the gradient of some of the rows."""
    c = tl.program_id(1) * block_c + tl.arange(0, block_c)
    inside = c < channels
    row = tl.program_id(0) * block_r + tl.arange(0, block_r)
    mask = (row < rows)[:, None] & inside[None, :]
    at = row.to(tl.int64)[:, None] * channels + c[None, :]
    # Asked for first, to be under way while the shares are added up.
    given = tl.load(g + at, mask=mask, other=0.0)
    value = tl.load(x + at, mask=mask, other=0.0)
    total, products = add_up(shares, channels, parts, c, inside, block_p)
    centre = tl.load(mean + c, mask=inside, other=0.0)
    width = tl.load(inverse + c, mask=inside, other=0.0)
    if tl.program_id(0) == 0:
        tl.store(bias_out + c, total, mask=inside)
        tl.store(weight_out + c, products * width, mask=inside)
    scale = tl.load(weight + c, mask=inside, other=0.0) * width
    shift = tl.load(bias + c, mask=inside, other=0.0)
    level = total / rows
    slope = products * width * width / rows
    distance = value.to(tl.float32) - centre[None, :]
    gradient = given.to(tl.float32)
    if relu:
        gradient = tl.where(distance * scale[None, :] + shift[None, :] <= 0.0, 0.0, gradient)
    gradient = (gradient - level[None, :] - distance * slope[None, :]) * scale[None, :]
    tl.store(x_out + at, gradient, mask=mask)
