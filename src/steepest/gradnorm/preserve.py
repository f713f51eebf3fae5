"""Leave a model exactly as it was found, also after an exception."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn


@contextmanager
def preserved(model: nn.Module) -> Iterator[None]:
    """Restore mode, ``requires_grad`` and random state on the way out.

    Gradients are never accumulated here (``torch.autograd.grad`` is used throughout), and hooks
    are removed by those who add them.
    """
    modes = {module: module.training for module in model.modules()}
    flags = {p: p.requires_grad for p in model.parameters()}
    devices = {p.device for p in model.parameters() if p.device.type == "cuda"}
    with torch.random.fork_rng(devices=sorted(devices, key=str)):
        try:
            yield
        finally:
            for module, training in modes.items():
                module.training = training
            for parameter, flag in flags.items():
                parameter.requires_grad_(flag)


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Put the model into eval mode, and leave it as it was found."""
    with preserved(model):
        model.eval()
        yield
