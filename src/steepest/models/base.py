"""Building a model by name, with weights that depend on the seed alone."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import nn

from steepest.errors import InputError
from steepest.models.factory import call_factory
from steepest.registry import Registry
from steepest.seeds import derive


class Builder(Protocol):
    """Makes a model that maps images [N, channels, H, W] to logits [N, classes].

    A model for segmentation gives logits [N, classes, H, W], one for volumes takes
    [N, channels, D, H, W].
    """

    def __call__(self, classes: int, channels: int = 3) -> nn.Module:
        """Make one with fresh weights."""


MODELS: Registry[Builder] = Registry("model", "steepest.models")
"""Builders by name."""


def build(name: str, classes: int, channels: int, seed: int) -> nn.Module:
    """Make a model on the CPU; the global random state stays as it is.

    Args:
        name: One of ``names()``, or ``package.module:factory``. A factory is called with
            ``classes`` and ``channels`` where it has parameters of these names.
        classes: The number of classes.
        channels: The number of image channels.
        seed: Decides the initial weights.

    Raises:
        UnknownNameError: If there is no model of that name.
        InputError: If the factory cannot be imported or called, or a number is too small.
    """
    if classes < 2 or channels < 1:
        raise InputError(f"a model needs 2 classes and 1 channel, not {classes} and {channels}")
    builder = None if ":" in name else MODELS.get(name)
    with torch.random.fork_rng(devices=[]):
        # torch.manual_seed would reach into every other device's generator too.
        torch.default_generator.manual_seed(derive(seed, "initial weights"))
        if builder is None:
            return call_factory(name, {"classes": classes, "channels": channels})
        return builder(classes, channels)


def names() -> list[str]:
    """Return the names of all models in the package."""
    return MODELS.names()
