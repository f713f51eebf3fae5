"""Every layer that the kernels know, seen as one three-dimensional convolution."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from torch import Tensor

from steepest.errors import InputError

Triple = tuple[int, int, int]

_LARGEST_OFFSET = 2**31 - 1
_NARROW = 16
"""Fewer channels than this are read together with the taps of the kernel."""


@dataclass(frozen=True)
class Problem:
    """Input and output gradient of a convolution with one group.

    Attributes:
        a: Input [N, C, D, H, W].
        g: Gradient at the output [N, O, D', P, Q].
        kernel: Size of the kernel.
        step: Its stride.
        pad: Zeros on both sides of the input.
        gap: Its dilation.
    """

    a: Tensor
    g: Tensor
    kernel: Triple
    step: Triple
    pad: Triple
    gap: Triple

    @property
    def positions(self) -> int:
        """Positions of the output T."""
        return self.g.shape[2:].numel()

    @property
    def taps(self) -> int:
        """Positions of the kernel."""
        return self.kernel[0] * self.kernel[1] * self.kernel[2]

    @property
    def is_channels_last(self) -> bool:
        """Whether the channels of the input are neighbours in memory."""
        return self.a.stride(1) == 1

    @property
    def is_narrow(self) -> bool:
        """Whether a tap alone has too few channels for a good tile."""
        return self.a.shape[1] < _NARROW and self.taps > 1


def from_linear(a: Tensor, g: Tensor) -> Problem:
    """View a linear layer's input [N, T, K] and gradient [N, T, O] as a kernel of one tap."""
    one = (1, 1, 1)
    return _checked(
        Problem(
            a.transpose(1, 2)[:, :, None, None],
            g.transpose(1, 2)[:, :, None, None],
            one,
            one,
            (0, 0, 0),
            one,
        )
    )


def from_convolution(
    a: Tensor,
    g: Tensor,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
) -> Problem:
    """View a convolution's input [N, C, *S] and gradient [N, O, *T] in three dimensions.

    Args:
        a: Input, of one to three spatial dimensions.
        g: Gradient at the output.
        kernel: One number for each spatial dimension, as all that follow.
        stride: The kernel's stride.
        padding: Zeros on both sides.
        dilation: The kernel's dilation.
    """
    missing = 3 - len(kernel)
    plain = missing == 0 or a.ndim == len(kernel) + 2
    if not plain or len({len(kernel), len(stride), len(padding), len(dilation)}) != 1:
        raise InputError("kernel, stride, padding and dilation need one number per dimension")
    for _ in range(missing):
        a, g = a.unsqueeze(2), g.unsqueeze(2)
    one = [1] * missing
    is_point = all(k == 1 for k in kernel) and all(s == 1 for s in stride) and not any(padding)
    if is_point and _flat(a) and _flat(g):
        # A kernel of one tap reads position by position: one long row makes full tiles.
        a, g = a.flatten(2)[:, :, None, None], g.flatten(2)[:, :, None, None]
    return _checked(
        Problem(
            a,
            g,
            _triple([*one, *kernel]),
            _triple([*one, *stride]),
            _triple([0] * missing + [*padding]),
            _triple([*one, *dilation]),
        )
    )


def arranged(problem: Problem, *, channels_last: bool) -> Problem:
    """Lay out input and gradient with the channels last in memory, or first; copies if need be."""

    def lay_out(x: Tensor) -> Tensor:
        return x.movedim(1, -1).contiguous().movedim(-1, 1) if channels_last else x.contiguous()

    return replace(problem, a=lay_out(problem.a), g=lay_out(problem.g))


def covers(sizes: Sequence[int], blocks: Sequence[int]) -> bool:
    """Say whether blocks cover all sizes without a rest, so that nothing has to be masked."""
    return all(size % block == 0 for size, block in zip(sizes, blocks, strict=True))


def add_up(shares: Tensor) -> Tensor:
    """Sum the programs' shares [N, programs] of each sample, in a fixed order."""
    return shares[:, 0] if shares.shape[1] == 1 else shares.sum(1)


def _flat(x: Tensor) -> bool:
    """Say whether the positions of [N, C, D, H, W] lie at equal distances."""
    sizes, strides = x.shape[2:], x.stride()[2:]
    want = strides[2]
    for size, stride in zip(reversed(sizes), reversed(strides), strict=True):
        if size > 1 and stride != want:
            return False
        want = want * size
    return True


def _triple(values: Sequence[int]) -> Triple:
    first, second, third = values
    return int(first), int(second), int(third)


def _checked(problem: Problem) -> Problem:
    for x in (problem.a, problem.g):
        reach = sum(
            (size - 1) * stride for size, stride in zip(x.shape[1:], x.stride()[1:], strict=True)
        )
        if reach > _LARGEST_OFFSET:
            raise InputError("one sample is too large for the fused kernels: use the plain rules")
    return problem
