"""Building a model by name, with weights that depend on the seed alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn

from steepest.core.keyword_options import convert_options
from steepest.core.registry import Registry
from steepest.core.seeds import seeded
from steepest.errors import InputError
from steepest.models.factory import GIVEN, call_factory

Builder = Callable[..., nn.Module]
"""``builder(classes, channels, **options)``: makes a model with fresh weights.

The model maps images [N, channels, H, W] to logits [N, classes]; one for segmentation gives logits
[N, classes, H, W], one for volumes takes [N, channels, D, H, W]. Options are keywords with a
default and a plain value.
"""

MODELS: Registry[Builder] = Registry("model", "steepest.models")
"""Builders by name."""


def build(
    name: str,
    classes: int,
    channels: int,
    seed: int,
    options: Mapping[str, Any] | None = None,
) -> nn.Module:
    """Make a model on the CPU; the global random state is unchanged.

    Args:
        name: One of ``names()``, or ``package.module:factory``. A factory is called with
            ``classes`` and ``channels`` where it has parameters of these names.
        classes: The number of classes.
        channels: The number of image channels.
        seed: Decides the initial weights.
        options: The model's own options, such as ``{"dropout": "head"}``. A factory must have a
            parameter for each.

    Raises:
        UnknownNameError: If there is no model, or option of it, of that name.
        InputError: If the factory cannot be imported or called, a number is too small, or an
            option's value cannot be used.
    """
    if classes < 2 or channels < 1:
        raise InputError(f"a model needs 2 classes and 1 channel, not {classes} and {channels}")
    chosen = dict(options or {})
    builder = None if ":" in name else MODELS.get(name)
    with seeded(seed, "initial weights"):
        if builder is None:
            return call_factory(name, {"classes": classes, "channels": channels}, chosen)
        return builder(
            classes, channels, **convert_options(f"model {name!r}", builder, chosen, GIVEN)
        )


def check_options(name: str, options: Mapping[str, Any]) -> None:
    """Refuse options that a model cannot be built with, without making weights.

    Those of the user's own factory are its own business until it is called.

    Raises:
        UnknownNameError: If there is no model, or option of it, of that name.
        InputError: If a value cannot be used.
    """
    if ":" in name:
        return
    builder = MODELS.get(name)
    converted = convert_options(f"model {name!r}", builder, options, GIVEN)
    if converted:
        with seeded(0, "initial weights"), torch.device("meta"):
            builder(2, 1, **converted)


def names() -> list[str]:
    """Return the names of all models in the package."""
    return MODELS.names()


def draw_convolutions(model: nn.Module) -> None:
    """Initialise every convolution's weights from N(0, 2 / fan_out) and its bias with 0.

    The variance of gradients then stays the same from layer to layer. The fan-out counts the
    kernel: its size times the output channels.
    """
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
            if module.bias is not None:
                nn.init.zeros_(module.bias)
