"""What tests of thinned networks share: images, models with statistics of their own, draws."""

from __future__ import annotations

import torch
from torch import nn

from steepest.modules.draws import dropout_draws


def images(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def all_draws(model, x, count=4, seed=5):
    return torch.stack(list(dropout_draws(model, x, count, seed)))


def settled(model):
    """Give normalisation statistics that are not 0 and 1."""
    torch.manual_seed(2)
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.normal_()
            module.running_var.uniform_(0.5, 2)
    return model.double().eval()
