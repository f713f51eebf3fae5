"""Costs of the routes to a convolution's gradient norms, in multiplications and memory."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import torch

from steepest.gradnorm import kernels
from steepest.gradnorm.measure.patches import Geometry

_COPY = 20
"""A copied number costs as much as so many multiplications: copies are bound by memory."""

_START = {"cpu": 4e6, "cuda": 1e8}
"""To start a function for one sample alone costs as much as so many multiplications."""

_VECTOR = 8
"""Kernels for many groups at once are made for multiples of so many channels, or for one."""

_DEPTHWISE = 10
"""A multiplication of a kernel with one channel waits for memory as long as so many others."""


@dataclass(frozen=True)
class Costs:
    """The costs of one convolution, in multiplications for one sample.

    Attributes:
        geometry: How the kernel moves.
        kernel: The kernel's shape [O, C / G, *taps].
        given: The input's shape [N, F, C, *S], F frames a sample.
        returned: The output's shape [N, F, O, *T].
        dtype: Of both.
        device: The kind of device that they are on.
    """

    geometry: Geometry
    kernel: torch.Size
    given: torch.Size
    returned: torch.Size
    dtype: torch.dtype
    device: str

    @cached_property
    def of_kernels(self) -> dict[str, float]:
        """The order of the hand-written kernels; nothing where they do not go."""
        groups, frames, positions, fan_in, fan_out = self._sizes
        if groups > 1 or frames > 1:
            return {}
        taps = self.geometry.taps
        by_gram = kernels.prefer_gram(positions, fan_in, fan_out, taps, self.dtype)
        return {"fused": 1.0 + by_gram, "fused-gram": 2.0 - by_gram}

    @cached_property
    def of_squares(self) -> dict[str, float]:
        """Count multiplications, and copies as some."""
        groups, frames, positions, fan_in, fan_out = self._sizes
        gradient = groups * frames * positions * fan_in * fan_out
        gram = groups * (frames * positions) ** 2 * (fan_in + fan_out)
        costs = dict(self.of_building)
        costs["patches"] += min(0, gram - gradient)
        if groups == 1 and frames == 1:
            pairs = positions**2 * (fan_out + _COPY / 2 * self.geometry.taps)
            costs["pixels"] = self._pixels**2 * self.kernel[1] + pairs
        return costs

    @cached_property
    def of_building(self) -> dict[str, float]:
        """Count the multiplications that build the gradient of a sample."""
        groups, frames, positions, fan_in, fan_out = self._sizes
        taps, start = self.geometry.taps, _START.get(self.device, 1e8)
        gradient = groups * frames * positions * fan_in * fan_out
        copies = 0 if taps == 1 else groups * fan_in * frames * positions
        by_torch = gradient * (_DEPTHWISE if fan_in == taps and fan_out == 1 else 1)
        costs: dict[str, float] = {
            "patches": _COPY * copies + gradient,
            "vendor": start + by_torch,
        }
        if self._fits_together():
            # Its result is put into order once more.
            costs["together"] = start / self.given[0] + by_torch + _COPY * self.kernel.numel()
        return costs

    def scratch(self, route: str) -> int:
        """Return how many numbers a route writes down for one sample."""
        groups, frames, positions, fan_in, _ = self._sizes
        if route == "patches":
            return fan_in * groups * positions * frames
        if route == "together":
            return self.kernel.numel() + self.given[1:].numel() + self.returned[1:].numel()
        return self._pixels**2 if route == "pixels" else 0

    @cached_property
    def _sizes(self) -> tuple[int, int, int, int, int]:
        """Groups, frames, positions, and what goes into and comes out of one position."""
        groups, fan_in = self.geometry.groups, self.kernel[1:].numel()
        return groups, self.given[1], self.returned[3:].numel(), fan_in, self.kernel[0] // groups

    @cached_property
    def _pixels(self) -> int:
        sides = zip(self.given[3:], self.geometry.padding, strict=True)
        return torch.Size([size + sum(pair) for size, pair in sides]).numel()

    def _fits_together(self) -> bool:
        """Say whether a call for all samples at once is made for so many channels in a group."""
        channels, outputs = self.kernel[1], self.kernel[0] // self.geometry.groups
        if self.device != "cpu":
            return channels == outputs == 1
        return channels == outputs == 1 or channels % _VECTOR == outputs % _VECTOR == 0


costs_of = lru_cache(maxsize=1024)(Costs)
"""The same layers come back batch after batch, and small ones should not wait for a count."""
