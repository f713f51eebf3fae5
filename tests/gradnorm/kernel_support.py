"""Says by plain formulas what the fused kernels should give, and how to ask for it."""

import math

import torch
from torch.nn import functional as F


def draw(*shape, seed=0, dtype=torch.float32):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def squares(a, g):
    """Return the squares and what they would be without cancelling, of [N, T, K] and [N, T, O]."""
    a, g = a.double(), g.double()
    size = (a.square().sum(2) * g.square().sum(2)).sqrt().sum(1).square()
    return torch.einsum("ntk,nto->nko", a, g).square().sum((1, 2)), size


def patches(a, kernel, stride, padding, dilation):
    """Return [N, T, K] by torch's own unfolding, dimension by dimension."""
    x = F.pad(a, [p for p in reversed(padding) for _ in range(2)])
    dims = len(kernel)
    for d, (size, step, gap) in enumerate(zip(kernel, stride, dilation, strict=True)):
        x = x.unfold(2 + d, gap * (size - 1) + 1, step)[..., ::gap]
    x = x.permute(0, *range(2, 2 + dims), 1, *range(2 + dims, 2 + 2 * dims))
    return x.reshape(len(a), math.prod(x.shape[1 : 1 + dims]), -1)


def expected(a, g, window):
    return squares(patches(a, *window), g.flatten(2).transpose(1, 2))


def output_size(size, kernel, stride, padding, dilation):
    zipped = zip(size, kernel, stride, padding, dilation, strict=True)
    return [(s + 2 * p - d * (k - 1) - 1) // step + 1 for s, k, step, p, d in zipped]


def laid_out(x, channels_last):
    return x.movedim(1, -1).contiguous().movedim(-1, 1) if channels_last else x.contiguous()


def close(got, want, tolerance=1e-5):
    assert got.dtype == torch.float32
    torch.testing.assert_close(got.double(), want, rtol=tolerance, atol=0.0)


def squares_by_rows(a, g, window, *tile):
    """Run one kernel with a tile of the caller's choice."""
    from steepest.gradnorm.kernels.instantiate import plan_rows
    from steepest.gradnorm.kernels.shapes import from_convolution
    from steepest.gradnorm.kernels.tiles import Tile

    return plan_rows(from_convolution(a, g, *window), Tile(*tile), "tf32")(a, g)


def squares_by_pairs(a, g, window, *tile):
    from steepest.gradnorm.kernels.gram import plan_pairs
    from steepest.gradnorm.kernels.shapes import from_convolution
    from steepest.gradnorm.kernels.tiles import GramTile

    return plan_pairs(from_convolution(a, g, *window), GramTile(*tile), "tf32")(a, g)


def find(name):
    """Return one of the functions of ``steepest.gradnorm.kernels``, or of those above."""
    from steepest.gradnorm import kernels

    return globals()[name] if name in globals() else getattr(kernels, name)
