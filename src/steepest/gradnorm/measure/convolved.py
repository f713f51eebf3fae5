"""Gradients of a convolution's kernel: sums of outer products with the patches under it."""

from __future__ import annotations

from functools import cached_property

import torch
from torch import Tensor
from torch.nn.grad import conv1d_weight, conv2d_weight, conv3d_weight

from steepest.gradnorm import kernels
from steepest.gradnorm.measure.convolution_costs import Costs, costs_of
from steepest.gradnorm.measure.outer import Outer, cancelled, gram_total
from steepest.gradnorm.measure.patches import Geometry, patch_gram, patch_rows, patches
from steepest.gradnorm.measure.routes import Routes, chunks
from steepest.gradnorm.measure.shares import Share, sum_of_squares

_LONG_RUN = 16
"""So many numbers side by side are copied as quickly as more."""

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
            parts.append(self._together(here) if route == "together" else self._cut(here))
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
            elif route == "together":
                parts.append(sum_of_squares(self._together(rows)))
            else:
                x, g = self._x[rows, 0], self._g[rows, 0]
                parts.append(_pixel_squares(self._geometry, self._geometry.pad(x), g, routes))
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

    def _by_rows(self) -> bool:
        """Say whether patches are cut with the channels last, for a CPU to copy longer runs."""
        geometry, x = self._geometry, self._x
        if geometry.groups > 1 or x.device.type != "cpu":
            return False
        if geometry.stride[-1] > 1 or x.stride(-1) > 1:
            return True
        return self._g.shape[-1] < min(_LONG_RUN, geometry.kernel[-1] * self.shape[1])

    def _cut(self, rows: slice) -> Tensor:
        """Build gradients [n, *shape] from patches."""
        built = self._patches(rows).dense(slice(None))
        return built.movedim(-1, 2).contiguous() if self._by_rows() else built

    def _patches(self, rows: slice) -> Outer:
        x, g = self._x, self._g
        if rows.stop - rows.start < self.samples:
            x, g = x[rows], g[rows]
        samples, frames, groups = x.shape[0], x.shape[1], self._geometry.groups
        out = g.shape[3:]
        if self._by_rows():
            # [N, 1, F · T, K] and [N, 1, F · T, O]: frames are more positions.
            cut = patch_rows(self._geometry, x.flatten(0, 1), out)
            y = g.flatten(3).transpose(1, 2).flatten(2).transpose(1, 2)
            shape = torch.Size([self.shape[0], *self.shape[2:], self.shape[1]])
            return Outer(cut.reshape(samples, 1, -1, cut.shape[2]), y[:, None], shape)
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
