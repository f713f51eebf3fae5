"""Gradients of a convolution's kernel: sums of outer products with the patches under it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import torch
from torch import Tensor
from torch.nn.grad import conv1d_weight, conv2d_weight, conv3d_weight

from steepest.gradnorm import kernels
from steepest.gradnorm.measure.outer import Outer, cancelled
from steepest.gradnorm.measure.patches import Geometry, patches
from steepest.gradnorm.measure.routes import Routes, chunks
from steepest.gradnorm.measure.shares import Share, sum_of_squares

_WEIGHT_GRADIENTS = {1: conv1d_weight, 2: conv2d_weight, 3: conv3d_weight}

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
        return costs

    @cached_property
    def of_building(self) -> dict[str, float]:
        """Count what it takes to build the gradient of a sample."""
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
        return 0

    @cached_property
    def _sizes(self) -> tuple[int, int, int, int, int]:
        """Groups, frames, positions, and what goes into and comes out of one position."""
        groups, fan_in = self.geometry.groups, self.kernel[1:].numel()
        return groups, self.given[1], self.returned[3:].numel(), fan_in, self.kernel[0] // groups

    def _fits_together(self) -> bool:
        """Say whether a call for all samples at once is made for so many channels in a group."""
        channels, outputs = self.kernel[1], self.kernel[0] // self.geometry.groups
        if self.device != "cpu":
            return channels == outputs == 1
        return channels == outputs == 1 or channels % _VECTOR == outputs % _VECTOR == 0


costs_of = lru_cache(maxsize=1024)(Costs)
"""The same layers come back batch after batch, and small ones should not wait for a count."""


class Convolved(Share):
    """Gradients of a kernel [O, C / G, *taps] that moved over an input.

    Args:
        x: The input [N, F, C, *S], F frames a sample.
        g: The gradient of the output [N, F, O, *T].
        geometry: How the kernel moves.
        shape: The kernel's shape.
    """

    def __init__(self, x: Tensor, g: Tensor, geometry: Geometry, shape: torch.Size) -> None:
        self.samples, self.shape = x.shape[0], shape
        self._x, self._g, self._geometry = x, g, geometry

    def squares(self, routes: Routes) -> Tensor:
        """Return squared norms [N]."""
        costs = self._costs(fused=routes.fused(self._x, self._g))
        route = routes.pick(self._key, costs, lambda name: self._by(name, routes), self._scratch)
        return self._by(route, routes)

    def _key(self) -> str:
        """Describe the layer for the clock."""
        x, g = self._x, self._g
        sizes = f"{self._geometry} {list(x.shape[1:])} {list(g.shape[1:])}"
        return f"convolution {sizes} {x.dtype} {x.device.type}"

    def dense(self, rows: slice) -> Tensor:
        """Build gradients [n, *shape]."""
        costs = self._counted.of_building
        route = min(costs, key=costs.__getitem__)
        first, stop, _ = rows.indices(self.samples)
        if route == "vendor":
            return torch.stack([self._one(i) for i in range(first, stop)])
        parts = []
        for part in chunks(stop - first, self._scratch(route)):
            here = slice(first + part.start, first + part.stop)
            parts.append(
                self._together(here)
                if route == "together"
                else self._patches(here).dense(slice(None))
            )
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    @cached_property
    def _counted(self) -> Costs:
        x, g = self._x, self._g
        return costs_of(self._geometry, self.shape, x.shape, g.shape, x.dtype, x.device.type)

    def _costs(self, *, fused: bool) -> dict[str, float]:
        """Return the cost of each route."""
        counted = self._counted
        return (counted.of_kernels if fused else {}) or counted.of_squares

    def _scratch(self, route: str) -> int:
        """Return how many numbers a route writes down for one sample."""
        return self._counted.scratch(route)

    def _by(self, route: str, routes: Routes) -> Tensor:
        if route.startswith("fused"):
            return self._fused(route == "fused-gram", routes)
        if route == "vendor":
            return torch.cat([sum_of_squares(self._one(i)[None]) for i in range(self.samples)])
        parts = []
        for rows in chunks(self.samples, self._scratch(route)):
            if route == "patches":
                parts.append(self._patches(rows).squares(_Quiet(routes)))
            else:
                parts.append(sum_of_squares(self._together(rows)))
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def _one(self, sample: int) -> Tensor:
        """Build one sample's gradient by torch's own function."""
        return self._built(self._x[sample], self._g[sample], 1)

    def _together(self, rows: slice) -> Tensor:
        """Build gradients [n, *shape] in one call: the groups of each sample are its own."""
        # [F, N · C, *S]: what torch takes for samples are the frames of one.
        x, g = (tensor[rows].transpose(0, 1).flatten(1, 2) for tensor in (self._x, self._g))
        samples = len(range(*rows.indices(self.samples)))
        return self._built(x, g, samples).reshape(samples, *self.shape)

    def _built(self, x: Tensor, g: Tensor, samples: int) -> Tensor:
        """Build gradients [n · O, C / G, *taps] of samples whose channels lie side by side."""
        geometry, shape = self._geometry, (samples * self.shape[0], *self.shape[1:])
        padding = [before for before, _ in geometry.padding]
        if not geometry.fits(x.shape[2:], g.shape[2:]):
            x, padding = geometry.cut(x, g.shape[2:]), [0] * len(padding)
        weight_gradient = _WEIGHT_GRADIENTS[len(padding)]
        groups = samples * geometry.groups
        built: Tensor = weight_gradient(  # type: ignore[no-untyped-call]
            x, shape, g, geometry.stride, padding, geometry.dilation, groups
        )
        return built

    def _patches(self, rows: slice) -> Outer:
        x, g = self._x, self._g
        if rows.stop - rows.start < self.samples:
            x, g = x[rows], g[rows]
        samples, frames, groups = x.shape[0], x.shape[1], self._geometry.groups
        out = g.shape[3:]
        cut = patches(self._geometry, self._geometry.pad(x.flatten(0, 1)), out)
        cut = cut.reshape(samples, frames, *cut.shape[1:]).transpose(3, 4)
        # [N, F, G, T, K] and [N, F, G, T, O]: frames are more positions.
        y = g.reshape(samples, frames, groups, -1, out.numel()).transpose(3, 4)
        if frames == 1:
            return Outer(cut[:, 0], y[:, 0], self.shape)
        return Outer(cut.transpose(1, 2).flatten(2, 3), y.transpose(1, 2).flatten(2, 3), self.shape)

    def _fused(self, gram: bool, routes: Routes) -> Tensor:
        shape, x = self._geometry, self._x[:, 0]
        padding = [before for before, _ in shape.padding]
        if not shape.fits(x.shape[2:], self._g.shape[3:]):
            x, padding = shape.cut(x, self._g.shape[3:]), [0] * len(padding)
        total, size = kernels.convolution_squares(
            x, self._g[:, 0], shape.kernel, shape.stride, padding, shape.dilation,
            routes.tf32, gram,
        )  # fmt: skip
        if gram:
            routes.doubt(cancelled(total, size, self._g.shape[3:].numel()))
        return total.clamp_min(0)


class _Quiet(Routes):
    """Picks for a part of a call without being noted as its route."""

    def __init__(self, outer: Routes) -> None:
        super().__init__()
        self.place, self.careful, self.doubts = outer.place, outer.careful, outer.doubts
        self.kernels, self.traced, self.tf32 = outer.kernels, outer.traced, outer.tf32
