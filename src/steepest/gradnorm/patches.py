"""The patches that a convolution's kernel sees, for any number of spatial dimensions."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F

Convolution = nn.Conv1d | nn.Conv2d | nn.Conv3d


def patches(layer: Convolution, x: Tensor) -> Tensor:
    """Cut the padded input into the patches that each output position is made of.

    Args:
        layer: The convolution: stride, dilation, groups, any padding and padding mode.
        x: Its input [N, C, *S].

    Returns:
        [N, G, K, T] for G groups, K = (C / G) · kernel positions, T output positions; in the
        order of ``weight.flatten(1)`` and ``output.flatten(2)``.
    """
    dims = len(layer.kernel_size)
    mode = "constant" if layer.padding_mode == "zeros" else layer.padding_mode
    x = F.pad(x, _padding(layer), mode=mode)
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
