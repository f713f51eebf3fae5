"""Convolutions and their transposes, in one to three dimensions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from steepest.gradnorm.measure.convolved import Convolved
from steepest.gradnorm.measure.patches import Geometry
from steepest.gradnorm.measure.shares import Dense, Share
from steepest.gradnorm.rules.base import Call, rule

Amount = int | tuple[int, ...]
"""The same for every dimension, or one for each."""


def _images(given: Mapping[str, Any], data: Tensor) -> int:
    """Take frames for samples; a single image has none."""
    return 1 + data.ndim - int(given["weight"].ndim)


@rule(
    torch.conv1d, torch.conv2d, torch.conv3d,
    arguments="input weight bias stride padding dilation groups", fold=_images,
)  # fmt: skip
def convolution(call: Call, g: Tensor) -> dict[str, Share]:
    """Convolution: a linear layer on the patches under the kernel, group by group."""
    return _shares(call, g, lambda x, g: (x, g))


@rule(
    torch.conv_transpose1d, torch.conv_transpose2d, torch.conv_transpose3d,
    arguments="input weight bias stride padding output_padding groups dilation", fold=_images,
)  # fmt: skip
def transposed_convolution(call: Call, g: Tensor) -> dict[str, Share]:
    """Transposed convolution: a convolution with input and output changed over."""
    return _shares(call, g, lambda x, g: (g, x))


def _shares(
    call: Call, g: Tensor, roles: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
) -> dict[str, Share]:
    """Return what a call adds; ``roles`` says what the kernel moves over, and what comes out."""
    weight: Tensor = call["weight"]
    geometry = _geometry(
        tuple(weight.shape[2:]),
        _plain(call.get("stride", 1)),
        _plain(call.get("dilation", 1)),
        _plain(call.get("padding", 0)),
        call.get("groups", 1),
    )
    x = call.data("input")
    if x.ndim == weight.ndim:  # A single image for each sample.
        x, g = x.unsqueeze(1), g.unsqueeze(1)
    shares: dict[str, Share] = {}
    if "weight" in call.wanted:
        shares["weight"] = Convolved(*roles(x, g), geometry, weight.shape)
    if "bias" in call.wanted:
        shares["bias"] = _bias(g)
    return shares


@lru_cache
def _geometry(
    kernel: tuple[int, ...],
    stride: Amount,
    dilation: Amount,
    padding: Amount | str,
    groups: int,
) -> Geometry:
    gaps = _each(dilation, len(kernel))
    sides = _padding(padding, kernel, gaps)
    return Geometry(kernel, _each(stride, len(kernel)), gaps, sides, groups)


def _plain(value: Any) -> Any:  # noqa: ANN401 - a number, several or a word
    return tuple(value) if isinstance(value, list) else value


def _bias(g: Tensor) -> Share:
    return Dense(g.flatten(3).sum((1, 3)))


def _each(value: Any, dims: int) -> tuple[int, ...]:  # noqa: ANN401 - a number or several
    values = [value] if isinstance(value, int) else list(value)
    return tuple(int(v) for v in (values * dims if len(values) == 1 else values))


def _padding(
    value: Any,  # noqa: ANN401 - a number, several or a word
    kernel: tuple[int, ...],
    dilation: tuple[int, ...],
) -> tuple[tuple[int, int], ...]:
    """Return the zeros before and after each dimension."""
    if value == "valid":
        return tuple((0, 0) for _ in kernel)
    if value == "same":
        totals = [gap * (size - 1) for size, gap in zip(kernel, dilation, strict=True)]
        return tuple((total // 2, total - total // 2) for total in totals)
    return tuple((p, p) for p in _each(value, len(kernel)))
