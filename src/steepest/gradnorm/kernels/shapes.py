"""Every layer that the kernels know, seen as one three-dimensional convolution."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from steepest.errors import InputError

Triple = tuple[int, int, int]

_LARGEST_OFFSET = 2**31 - 1
_NARROW = 16
"""Fewer channels than this are read together with the taps of the kernel."""


@dataclass(frozen=True)
class Layout:
    """The memory layout of a tensor [N, C, D, H, W].

    Attributes:
        shape: Its sizes.
        stride: Distances in memory, in numbers.
    """

    shape: tuple[int, ...]
    stride: tuple[int, ...]

    @property
    def channels(self) -> int:
        """Size of the second dimension."""
        return self.shape[1]

    @property
    def spatial(self) -> Triple:
        """Sizes that follow the channels."""
        return self.shape[2], self.shape[3], self.shape[4]


@dataclass(frozen=True)
class Problem:
    """Input and output gradient of a convolution with one group; a description, without numbers.

    Attributes:
        a: Input [N, C, D, H, W].
        g: Gradient at the output [N, O, D', P, Q].
        dtype: Of both.
        kernel: Size of the kernel.
        step: Its stride.
        pad: Zeros on both sides of the input.
        gap: Its dilation.
        is_aligned: Whether both tensors start at multiples of 16 bytes.
    """

    a: Layout
    g: Layout
    dtype: torch.dtype
    kernel: Triple
    step: Triple
    pad: Triple
    gap: Triple
    is_aligned: bool = True

    @property
    def samples(self) -> int:
        """Size of the batch N."""
        return self.g.shape[0]

    @property
    def positions(self) -> int:
        """Positions of the output T."""
        depth, height, width = self.g.spatial
        return depth * height * width

    @property
    def taps(self) -> int:
        """Positions of the kernel."""
        return self.kernel[0] * self.kernel[1] * self.kernel[2]

    @property
    def is_half(self) -> bool:
        """Whether numbers take two bytes."""
        return self.dtype.itemsize == 2

    @property
    def is_channels_last(self) -> bool:
        """Whether the channels of the input are neighbours in memory."""
        return self.a.stride[1] == 1

    @property
    def is_narrow(self) -> bool:
        """Whether a tap alone has too few channels for a good tile."""
        return self.a.channels < _NARROW and self.taps > 1


def from_linear(a: Tensor, g: Tensor) -> Problem:
    """Describe a linear layer's input [N, T, K] and gradient [N, T, O]: a kernel of one tap."""
    _check_precision(a, g)
    one = (1, 1, 1)
    sides = [layout(x.transpose(1, 2)[:, :, None, None]) for x in (a, g)]
    return Problem(sides[0], sides[1], a.dtype, one, one, (0, 0, 0), one)


def from_convolution(
    a: Tensor,
    g: Tensor,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
) -> Problem:
    """Describe a convolution's input [N, C, *S] and gradient [N, O, *T] in three dimensions.

    Args:
        a: Input, of one to three spatial dimensions.
        g: Gradient at the output.
        kernel: One number for each spatial dimension, as all that follow.
        stride: The kernel's stride.
        padding: Zeros on both sides.
        dilation: The kernel's dilation.
    """
    _check_precision(a, g)
    window = (kernel, stride, padding, dilation)
    if a.ndim != g.ndim or any(len(part) != a.ndim - 2 for part in window):
        raise InputError("kernel, stride, padding and dilation need one number per dimension")
    missing = 5 - a.ndim
    for _ in range(missing):
        a, g = a.unsqueeze(2), g.unsqueeze(2)
    if {*kernel, *stride} == {1} and not any(padding) and _is_flat(a) and _is_flat(g):
        # A kernel of one tap reads position by position: one long row makes full tiles.
        a, g = a.flatten(2)[:, :, None, None], g.flatten(2)[:, :, None, None]
    one = [1] * missing
    return Problem(
        layout(a),
        layout(g),
        a.dtype,
        _triple([*one, *kernel]),
        _triple([*one, *stride]),
        _triple([0] * missing + [*padding]),
        _triple([*one, *dilation]),
    )


def layout(x: Tensor) -> Layout:
    """Describe where the numbers of [N, C, D, H, W] lie."""
    reach = sum(
        (size - 1) * stride for size, stride in zip(x.shape[1:], x.stride()[1:], strict=True)
    )
    if reach > _LARGEST_OFFSET:
        raise InputError("one sample is too large for the fused kernels: use the plain rules")
    return Layout(tuple(x.shape), x.stride())


def covers(sizes: Sequence[int], blocks: Sequence[int]) -> bool:
    """Say whether blocks cover all sizes without a rest, so that nothing has to be masked."""
    return all(size % block == 0 for size, block in zip(sizes, blocks, strict=True))


def _check_precision(a: Tensor, g: Tensor) -> None:
    if a.dtype != g.dtype:
        raise InputError(f"input and gradient differ: {a.dtype} and {g.dtype}; convert one of them")


def _is_flat(x: Tensor) -> bool:
    """Say whether the positions of [N, C, D, H, W] lie at equal distances."""
    want = None
    for size, stride in zip(reversed(x.shape[2:]), reversed(x.stride()[2:]), strict=True):
        if size > 1:
            if want not in {None, stride}:
                return False
            want = stride * size
    return True


def _triple(values: Sequence[int]) -> Triple:
    first, second, third = values
    return int(first), int(second), int(third)
