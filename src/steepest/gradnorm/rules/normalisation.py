"""Normalisations, and the slope of a rectifier: one scale and one shift per channel or element."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from steepest.gradnorm import kernels
from steepest.gradnorm.measure.shares import Dense, Share
from steepest.gradnorm.rules.base import Call, rule

_FAR_OFF = 30
"""A mean so many standard deviations off zero would cost digits if it were taken out last."""


def _frames_and_samples(given: Mapping[str, Any], data: Tensor) -> int:
    if given.get("training", False):
        return 0  # Statistics of a batch, which is one of one here.
    return min(2, data.ndim)


@rule(
    F.batch_norm,
    arguments="input running_mean running_var weight bias training momentum eps",
    fold=_frames_and_samples,
)
def batch_norm(call: Call, g: Tensor) -> dict[str, Share]:
    """Batch normalisation in eval mode: a fixed scale and shift of each channel."""
    mean, var = call["running_mean"], call["running_var"]
    if call.get("training", False) or mean is None:
        raise NotImplementedError
    x, g = _images(call, g)
    eps = call.get("eps", 1e-5)
    if call.fused and kernels.available(g) and kernels.available(x):
        products, sums = kernels.channel_sums(x, g)
        return _centred(call, products, sums, mean, (var + eps).rsqrt())
    if (
        call.fused
        and x.device.type == "cpu"
        and bool((mean.abs() < _FAR_OFF * (var + eps).sqrt()).all())
    ):
        products, sums = _over_positions(x * g), _over_positions(g)
        return _centred(call, products, sums, mean, (var + eps).rsqrt())
    normal = F.batch_norm(x, mean.to(x.dtype), var.to(x.dtype), None, None, training=False, eps=eps)
    return _of_channels(call, normal, g)


@rule(F.group_norm, arguments="input num_groups weight bias eps", fold=_frames_and_samples)
def group_norm(call: Call, g: Tensor) -> dict[str, Share]:
    """Group normalisation: one scale and shift per channel, summed over positions."""
    groups, eps = call["num_groups"], call.get("eps", 1e-5)
    x, g = _images(call, g)
    return _of_channels(call, F.group_norm(x, groups, None, None, eps), g)


@rule(
    F.instance_norm,
    arguments="input running_mean running_var weight bias use_input_stats momentum eps",
    fold=_frames_and_samples,
)
def instance_norm(call: Call, g: Tensor) -> dict[str, Share]:
    """Instance normalisation: one scale and shift per channel, summed over positions."""
    x, g = _images(call, g)
    normal = F.instance_norm(
        x,
        call.get("running_mean"),
        call.get("running_var"),
        use_input_stats=call.get("use_input_stats", True),
        momentum=0.0,  # A second look must not move the running statistics.
        eps=call.get("eps", 1e-5),
    )
    return _of_channels(call, normal, g)


@rule(F.layer_norm, arguments="input normalized_shape weight bias eps")
def layer_norm(call: Call, g: Tensor) -> dict[str, Share]:
    """Layer normalisation: one scale and shift per normalised element, summed over the rest."""
    shape = call["normalized_shape"]
    normal = F.layer_norm(call.data("input"), shape, None, None, call.get("eps", 1e-5))
    return _of_elements(call, normal, g, len(shape))


@rule(F.rms_norm, arguments="input normalized_shape weight eps")
def rms_norm(call: Call, g: Tensor) -> dict[str, Share]:
    """Root-mean-square normalisation: one scale per normalised element, summed over the rest."""
    shape = call["normalized_shape"]
    normal = F.rms_norm(call.data("input"), shape, None, call.get("eps"))
    return _of_elements(call, normal, g, len(shape))


@rule(torch.prelu, arguments="input weight", fold=_frames_and_samples)
def prelu(call: Call, g: Tensor) -> dict[str, Share]:
    """Rectifier with a learnt slope: Σ g·min(x, 0), per channel or for all of them."""
    x, g = _images(call, g)
    products = _frames(call, _over_positions(x.clamp_max(0) * g))
    if call["weight"].numel() == 1:
        products = products.sum(1, keepdim=True)
    return {"weight": Dense(products)}


def _centred(
    call: Call, products: Tensor, sums: Tensor, mean: Tensor, scale: Tensor
) -> dict[str, Share]:
    """Normalise Σ x·g after the sum, which saves a pass over the data."""
    products, sums = _frames(call, products), _frames(call, sums)
    return _shares(call, (products - mean.to(sums.dtype) * sums) * scale.to(sums.dtype), sums)


def _of_channels(call: Call, normal: Tensor, g: Tensor) -> dict[str, Share]:
    products, sums = _over_positions(normal * g), _over_positions(g)
    return _shares(call, _frames(call, products), _frames(call, sums))


def _of_elements(call: Call, normal: Tensor, g: Tensor, dims: int) -> dict[str, Share]:
    def summed(tensor: Tensor) -> Tensor:
        over = range(1, tensor.ndim - dims)
        return tensor.sum(list(over)) if over else tensor

    return _shares(call, summed(normal * g), summed(g))


def _images(call: Call, g: Tensor) -> tuple[Tensor, Tensor]:
    """Return input and gradient [N · F, C, ...] of F frames a sample."""
    x = call.data("input")
    if x.ndim < 3:
        raise NotImplementedError
    return x.flatten(0, 1), g.flatten(0, 1)


def _over_positions(tensor: Tensor) -> Tensor:
    """Sum [N · F, C, ...] over positions: [N · F, C]."""
    return tensor if tensor.ndim == 2 else tensor.flatten(2).sum(2)


def _frames(call: Call, channels: Tensor) -> Tensor:
    """Sum [N · F, C] over the frames F of a sample: [N, C]."""
    if len(channels) == call.samples:
        return channels
    return channels.reshape(call.samples, -1, channels.shape[1]).sum(1)


def _shares(call: Call, scale: Tensor, shift: Tensor) -> dict[str, Share]:
    found: dict[str, Share] = {"weight": Dense(scale), "bias": Dense(shift)}
    return {name: share for name, share in found.items() if name in call.wanted}
