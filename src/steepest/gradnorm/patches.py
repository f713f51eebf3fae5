"""What a convolution's kernel sees of its input, for any number of spatial dimensions."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional as F

Convolution = nn.Conv1d | nn.Conv2d | nn.Conv3d


def padded(layer: Convolution, x: Tensor) -> Tensor:
    """Pad the input [N, C, *S] as the layer does, in any padding mode."""
    mode = "constant" if layer.padding_mode == "zeros" else layer.padding_mode
    return F.pad(x, _padding(layer), mode=mode)


def patches(layer: Convolution, x: Tensor) -> Tensor:
    """Cut a padded input into the patches that each output position is made of.

    Args:
        layer: The convolution.
        x: Its padded input [N, C, *S].

    Returns:
        [N, G, K, T] for G groups, K = (C / G) · kernel positions, T output positions; in the
        order of ``weight.flatten(1)`` and ``output.flatten(2)``.
    """
    dims = len(layer.kernel_size)
    for d, (size, step, gap) in enumerate(
        zip(layer.kernel_size, layer.stride, layer.dilation, strict=True)
    ):
        x = x.unfold(2 + d, gap * (size - 1) + 1, step)[..., ::gap]
    # Now [N, C, *T, *kernel]; bring the kernel beside the channels.
    batch, channels = x.shape[:2]
    spatial = list(range(2, 2 + dims))
    kernel = list(range(2 + dims, 2 + 2 * dims))
    x = x.permute(0, 1, *kernel, *spatial)
    taps = x.shape[2 : 2 + dims].numel()
    width = channels // layer.groups * taps
    return x.reshape(batch, layer.groups, width, x.shape[2 + dims :].numel())


def patch_rows(layer: Convolution, x: Tensor, out: torch.Size) -> Iterator[Tensor]:
    """Cut a padded input into patches, one row of the kernel's taps at a time.

    Only the last dimension is unfolded; along the others a tap is a shift. Each row is a larger
    product than a patch's and a fraction of its memory.

    Args:
        layer: The convolution, with one group.
        x: Its padded input [N, C, *S].
        out: The spatial shape of its output.

    Yields:
        [N, C · taps in a row, T].
    """
    size, step, gap = layer.kernel_size[-1], layer.stride[-1], layer.dilation[-1]
    wide = x.unfold(-1, gap * (size - 1) + 1, step)[..., ::gap].movedim(-1, 2)
    wide = wide.reshape(len(x), -1, *wide.shape[3:])
    for tap in itertools.product(*map(range, layer.kernel_size[:-1])):
        yield wide[(slice(None), slice(None), *_seen(layer, tap, out))].flatten(2)


def patch_gram(layer: Convolution, x: Tensor, out: torch.Size) -> Tensor:
    """Return the inner products of all pairs of patches without cutting any.

    Two patches overlap tap by tap, so that their product is a sum over the kernel's taps of
    products of single pixels, read off one table at shifted places.

    Args:
        layer: The convolution, with one group.
        x: Its padded input [N, C, *S].
        out: The spatial shape of its output.

    Returns:
        [N, T, T].
    """
    pixels = x.flatten(2)
    table = (pixels.transpose(1, 2) @ pixels).reshape(len(x), *x.shape[2:], *x.shape[2:])
    total = table.new_zeros(len(x), *out, *out)
    for tap in itertools.product(*map(range, layer.kernel_size)):
        seen = _seen(layer, tap, out)
        total += table[(slice(None), *seen, *seen)]
    return total.reshape(len(x), out.numel(), out.numel())


def _seen(layer: Convolution, tap: tuple[int, ...], out: torch.Size) -> list[slice]:
    """Return where one tap of the kernel falls on the input, along the first dimensions."""
    steps = zip(tap, layer.dilation, layer.stride, out, strict=False)
    return [slice(t * gap, t * gap + (n - 1) * step + 1, step) for t, gap, step, n in steps]


def _padding(layer: Convolution) -> list[int]:
    """Return the padding as ``F.pad`` wants it: last dimension first, before and after."""
    sides: list[int] = []
    for d in reversed(range(len(layer.kernel_size))):
        if layer.padding == "valid":
            sides += [0, 0]
        elif layer.padding == "same":
            total = layer.dilation[d] * (layer.kernel_size[d] - 1)
            sides += [total // 2, total - total // 2]
        else:
            amount = layer.padding[d]
            sides += [int(amount), int(amount)]
    return sides
