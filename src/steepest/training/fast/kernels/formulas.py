"""Batch normalisation with what surrounds it in a residual net, by torch's own operators.

The slow and plain counterpart of the fused kernels: it takes and returns the same.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.grad import conv2d_weight

Normed = tuple[Tensor, Tensor, Tensor]
"""The result like x, and the mean [C] and 1 / √(variance + eps) [C] of the batch."""

Gradients = tuple[Tensor, Tensor, Tensor, Tensor]
"""With respect to x, weight [C], bias [C], and what stood before the ReLU."""


def normed(
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    running_mean: Tensor,
    running_var: Tensor,
    momentum: float,
    eps: float,
    residual: Tensor | None,
    relu: bool,
) -> Normed:
    """Normalise a batch by its own statistics, add the residual, and cut below zero.

    Args:
        x: [N, C, *S].
        weight: Scale [C].
        bias: Shift [C].
        running_mean: Moved towards the batch's mean [C].
        running_var: Moved towards the batch's unbiased variance [C].
        momentum: How far they are moved.
        eps: Added to the variance.
        residual: Added to the result, like x.
        relu: Whether to cut below zero.
    """
    values = x.double() if x.dtype == torch.float64 else x.float()
    others = [d for d in range(x.dim()) if d != 1]
    count = x.numel() // x.shape[1]
    mean = values.mean(others)
    centred = values - along_channels(mean, x)
    variance = centred.square().mean(others)
    running_mean.lerp_(mean.to(running_mean.dtype), momentum)
    unbiased = variance * (count / (count - 1))
    running_var.lerp_(unbiased.to(running_var.dtype), momentum)
    inverse = (variance + eps).rsqrt()
    result = centred * along_channels(inverse * weight, x) + along_channels(bias, x)
    if residual is not None:
        result = result + residual
    if relu:
        result = result.relu()
    return torch.empty_like(x).copy_(result), mean, inverse


def normed_backward(
    first: Tensor,
    second: Tensor | None,
    x: Tensor,
    result: Tensor | None,
    mean: Tensor,
    inverse: Tensor,
    weight: Tensor,
    bias: Tensor,
    relu: bool,
    keep: bool,
) -> Gradients:
    """Return the gradients of ``normed``.

    Args:
        first: Gradient at the result, like x.
        second: Added to it if given.
        x: The input that was normalised.
        result: The result of ``normed``; needed if there was a residual and a ReLU.
        mean: As returned [C].
        inverse: As returned [C].
        weight: Scale [C].
        bias: Shift [C].
        relu: Whether the result was cut below zero.
        keep: Whether the gradient before the ReLU is requested, which is the residual's.

    Returns:
        The last one is empty unless it is requested.
    """
    wide = mean.dtype
    gradient = first.to(wide) if second is None else first.to(wide) + second
    normal = (x.to(wide) - along_channels(mean, x)) * along_channels(inverse, x)
    if relu:
        if result is None:
            result = normal * along_channels(weight, x) + along_channels(bias, x)
        gradient = gradient.masked_fill(result <= 0, 0.0)
    others = [d for d in range(x.dim()) if d != 1]
    count = x.numel() // x.shape[1]
    to_bias = gradient.sum(others)
    to_weight = (gradient * normal).sum(others)
    common = along_channels(to_bias / count, x) + normal * along_channels(to_weight / count, x)
    to_x = (gradient - common) * along_channels(inverse * weight, x)
    kept = torch.empty_like(x, dtype=first.dtype).copy_(gradient) if keep else first.new_empty(0)
    return torch.empty_like(x).copy_(to_x), to_weight, to_bias, kept


def few_channels(x: Tensor, weight: Tensor, stride: int, padding: int) -> Tensor:
    """Convolve images of few channels [N, C, H, W] with a square kernel [O, C, K, K]."""
    result = functional.conv2d(x, weight, None, stride, padding)
    return result.contiguous(memory_format=torch.channels_last)


def few_channels_weight(g: Tensor, x: Tensor, kernel: int, stride: int, padding: int) -> Tensor:
    """Return the gradient of the kernel [O, C, K, K] from that of the result [N, O, H, W]."""
    shape = [g.shape[1], x.shape[1], kernel, kernel]
    found: Tensor = conv2d_weight(x, shape, g, stride, padding)  # type: ignore[no-untyped-call]
    return torch.empty_like(found, memory_format=torch.channels_last).copy_(found)


def along_channels(values: Tensor, like: Tensor) -> Tensor:
    """Return [C] as [1, C, 1, ...], to go with [N, C, ...]."""
    return values.view(1, -1, *[1] * (like.dim() - 2))
