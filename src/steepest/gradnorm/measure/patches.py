"""Patches of a convolution's input, for any number of spatial dimensions."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor
from torch.nn import functional as F


@dataclass(frozen=True)
class Geometry:
    """Kernel size, stride, padding and dilation of a convolution.

    Attributes:
        kernel: Its taps along each spatial dimension.
        stride: Its steps.
        dilation: The gaps between taps.
        padding: Zeros before and after the input along each dimension.
        groups: Into how many separate convolutions the channels fall.
    """

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    groups: int = 1

    @cached_property
    def taps(self) -> int:
        """The taps of the kernel in all."""
        return torch.Size(self.kernel).numel()

    def pad(self, x: Tensor) -> Tensor:
        """Put zeros around an input [N, C, *S]."""
        sides = [side for pair in reversed(self.padding) for side in pair]
        return F.pad(x, sides) if any(sides) else x

    def cut(self, x: Tensor, out: torch.Size) -> Tensor:
        """Pad an input [N, C, *S], and leave off what no output position sees."""
        x = self.pad(x)
        steps = zip(self.kernel, self.stride, self.dilation, out, strict=True)
        for d, (size, step, gap, n) in enumerate(steps):
            x = x.narrow(2 + d, 0, (n - 1) * step + gap * (size - 1) + 1)
        return x

    def fits(self, size: torch.Size, out: torch.Size) -> bool:
        """Say whether an unpadded input of a size has just this output, padded alike all round."""
        steps = zip(size, self.kernel, self.stride, self.dilation, self.padding, strict=True)
        found = [
            (n + sum(pad) - gap * (taps - 1) - 1) // step + 1 for n, taps, step, gap, pad in steps
        ]
        return found == list(out) and all(before == after for before, after in self.padding)


def patches(geometry: Geometry, x: Tensor, out: torch.Size) -> Tensor:
    """Cut a padded input into the patches that each output position is made of.

    Args:
        geometry: How the kernel moves.
        x: The padded input [N, C, *S].
        out: The spatial shape of the output, T positions in all.

    Returns:
        [N, G, K, T] for G groups, K = (C / G) · taps; in the order of ``weight.flatten(1)`` and
        ``output.flatten(2)``.
    """
    samples, channels = x.shape[:2]
    sample, channel, *steps = x.stride()
    taps = [gap * step for gap, step in zip(geometry.dilation, steps, strict=True)]
    moves = [move * step for move, step in zip(geometry.stride, steps, strict=True)]
    # The kernel beside the channels: [N, C, *kernel, *T].
    sizes = (samples, channels, *geometry.kernel, *out)
    cut = x.as_strided(sizes, (sample, channel, *taps, *moves))
    width = channels // geometry.groups * geometry.taps
    return cut.reshape(samples, geometry.groups, width, out.numel())
