"""Gradients of a convolution's kernel: sums of outer products with the patches under it."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.grad import conv1d_weight, conv2d_weight, conv3d_weight

from steepest.gradnorm import kernels
from steepest.gradnorm.outer import Outer, cancelled, gram_total
from steepest.gradnorm.patches import Geometry, patch_gram, patches
from steepest.gradnorm.routes import Routes, chunks
from steepest.gradnorm.shares import Share, sum_of_squares

_COPY = 20
"""A copied number costs as much as so many multiplications: copies are bound by memory."""

_START = {"cpu": 4e6, "cuda": 1e8}
"""To start a function for one sample alone costs as much as so many multiplications."""

_VECTOR = 8
"""Kernels for many groups at once are made for multiples of so many channels, or for one."""

_DEPTHWISE = 10
"""A multiplication of a kernel with one channel waits for memory as long as so many others."""

_WEIGHT_GRADIENTS = {1: conv1d_weight, 2: conv2d_weight, 3: conv3d_weight}


class Convolved(Share):
    """Gradients of a kernel [O, C / G, *taps] that moved over an input.

    Args:
        x: The input [N, F, C, *S], F frames a sample.
        g: The gradient of the output [N, F, O, *T].
        geometry: How the kernel moves.
        shape: The kernel's shape.
    """

    def __init__(self, x: Tensor, g: Tensor, geometry: Geometry, shape: torch.Size) -> None:
        self.samples, self.shape = len(x), shape
        self._x, self._g, self._geometry = x, g, geometry

    def squares(self, routes: Routes) -> Tensor:
        """Return squared norms [N]."""
        costs = self._costs(fused=routes.fused(self._x, self._g))
        key = f"convolution {self._geometry} {list(self._x.shape[1:])} {list(self._g.shape[1:])}"
        key = f"{key} {self._x.dtype} {self._x.device.type}"
        scratch = {name: self._scratch(name) for name in costs}
        route = routes.pick(key, costs, lambda name: self._by(name, routes), scratch)
        return self._by(route, routes)

    def dense(self, rows: slice) -> Tensor:
        """Build gradients [n, *shape]."""
        costs = self._costs_of_building()
        route = min(costs, key=costs.__getitem__)
        first, stop, _ = rows.indices(self.samples)
        if route == "vendor":
            return torch.stack([self._one(i) for i in range(first, stop)])
        parts = []
        for part in chunks(stop - first, self._scratch(route)):
            here = slice(first + part.start, first + part.stop)
            together = route == "together"
            parts.append(
                self._together(here) if together else self._patches(here).dense(slice(None))
            )
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def _costs(self, *, fused: bool) -> dict[str, float]:
        """Count multiplications, and copies as some."""
        groups, frames, positions, fan_in, fan_out = self._sizes()
        if fused and groups == 1 and frames == 1:
            taps, dtype = self._geometry.taps, self._x.dtype
            by_gram = kernels.prefer_gram(positions, fan_in, fan_out, taps, dtype)
            return {"fused": 1.0 + by_gram, "fused-gram": 2.0 - by_gram}
        gradient = groups * frames * positions * fan_in * fan_out
        gram = groups * (frames * positions) ** 2 * (fan_in + fan_out)
        costs = self._costs_of_building()
        costs["patches"] += min(0, gram - gradient)
        if groups == 1 and frames == 1:
            pixels, taps = self._pixels(), self._geometry.taps
            costs["pixels"] = pixels**2 * self.shape[1] + positions**2 * (
                fan_out + _COPY / 2 * taps
            )
        return costs

    def _costs_of_building(self) -> dict[str, float]:
        """Count what it takes to build the gradient of a sample."""
        groups, frames, positions, fan_in, fan_out = self._sizes()
        taps, start = self._geometry.taps, _START.get(self._x.device.type, 1e8)
        gradient = groups * frames * positions * fan_in * fan_out
        copies = 0 if taps == 1 else groups * fan_in * frames * positions
        by_torch = gradient * (_DEPTHWISE if fan_in == taps and fan_out == 1 else 1)
        costs: dict[str, float] = {
            "patches": _COPY * copies + gradient,
            "vendor": start + by_torch,
        }
        if self._fits_together():
            # Its result is put into order once more.
            costs["together"] = start / self.samples + by_torch + _COPY * self.shape.numel()
        return costs

    def _sizes(self) -> tuple[int, int, int, int, int]:
        """Return groups, frames, positions, and what goes into and comes out of one position."""
        groups, frames = self._geometry.groups, self._x.shape[1]
        fan_in, fan_out = self.shape[1:].numel(), self.shape[0] // groups
        return groups, frames, self._g.shape[3:].numel(), fan_in, fan_out

    def _fits_together(self) -> bool:
        """Say whether a call for all samples at once is made for so many channels in a group."""
        channels, outputs = self.shape[1], self.shape[0] // self._geometry.groups
        if self._x.device.type != "cpu":
            return channels == outputs == 1
        return channels == outputs == 1 or channels % _VECTOR == outputs % _VECTOR == 0

    def _pixels(self) -> int:
        sides = zip(self._x.shape[3:], self._geometry.padding, strict=True)
        return torch.Size([size + sum(pair) for size, pair in sides]).numel()

    def _scratch(self, route: str) -> int:
        """Return how many numbers a route writes down for one sample."""
        positions, frames = self._g.shape[3:].numel(), self._x.shape[1]
        if route == "patches":
            return self.shape[1:].numel() * self._geometry.groups * positions * frames
        if route == "together":
            return self.shape.numel() + self._x[0].numel() + self._g[0].numel()
        return self._pixels() ** 2 if route == "pixels" else 0

    def _by(self, route: str, routes: Routes) -> Tensor:
        if route.startswith("fused"):
            return self._fused(route == "fused-gram", routes)
        if route == "vendor":
            return torch.cat([sum_of_squares(self._one(i)[None]) for i in range(self.samples)])
        parts = []
        for rows in chunks(self.samples, self._scratch(route)):
            if route == "patches":
                parts.append(self._patches(rows).squares(_Quiet(routes)))
            elif route == "together":
                parts.append(sum_of_squares(self._together(rows)))
            else:
                x, g = self._x[rows, 0], self._g[rows, 0]
                parts.append(_pixel_squares(self._geometry, self._geometry.pad(x), g, routes))
        return torch.cat(parts)

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
        x, g = self._x[rows], self._g[rows]
        samples, frames, groups = len(x), x.shape[1], self._geometry.groups
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


def _pixel_squares(geometry: Geometry, x: Tensor, g: Tensor, routes: Routes) -> Tensor:
    """Return squares [N] from products of pixels, for a padded input and g [N, O, *T]."""
    out = g.shape[2:]

    def grams(x: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
        g = g.flatten(2)
        return patch_gram(geometry, x, out)[:, None], (g.transpose(1, 2) @ g)[:, None]

    return gram_total(grams, x, g, routes)


class _Quiet(Routes):
    """Picks for a part of a call without being noted as its route."""

    def __init__(self, outer: Routes) -> None:
        super().__init__()
        self.place, self.careful, self.doubts = outer.place, outer.careful, outer.doubts
        self.kernels, self.traced, self.tf32 = outer.kernels, outer.traced, outer.tf32
