"""A model, a pool and support that every strategy can work with, and quick options for the slow."""

from __future__ import annotations

import torch
from torch import nn

import steepest
from steepest.strategies import Support

SAMPLES = 29
LABELLED = (3, 8, 11, 17, 20, 26)

QUICK = {
    "core-gcn": {"epochs": 5},
    "noise-stability": {"copies": 4},
    "qbc": {"size": 3},
    "sraal": {"iterations": 3, "latent": 8, "width": 16},
    "uncertain-gcn": {"epochs": 5},
    "vaal": {"iterations": 3, "latent": 8, "width": 16},
}
"""Options that make a strategy quick enough to be tried often."""


class Net(nn.Module):
    """A convolutional net with all that strategies look for."""

    head_layers = ("head",)
    block_layers = ("body.0", "body.3")

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, 4, 3, padding=1),
            nn.BatchNorm2d(4),
            nn.ReLU(),
            nn.Conv2d(4, 4, 3, padding=1),
            nn.Dropout(0.5),
            nn.AdaptiveAvgPool2d(2),
            nn.Flatten(),
        )
        self.head = nn.Linear(16, 3)

    def forward(self, x):
        return self.head(self.body(x))


def make_model(seed=7):
    torch.manual_seed(seed)
    net = Net().double()
    net(torch.randn(16, 1, 8, 8, dtype=torch.float64) * 2 + 1)  # statistics that are not 0 and 1
    return net.train()


def make_pool():
    generator = torch.Generator().manual_seed(1)
    return torch.randn(SAMPLES, 1, 8, 8, dtype=torch.float64, generator=generator)


def make_support(ids=range(SAMPLES), dtype=torch.float64):
    names = list(ids)
    one, two, previous = (make_model(seed).to(dtype) for seed in (8, 9, 10))
    return Support(
        targets={names[i]: i % 3 for i in LABELLED}, members=(one, two), previous=previous
    )


def select(model, pool, k, name, *, ids=None, support=None, **more):
    names = list(range(len(pool)) if ids is None else ids)
    more.setdefault("options", QUICK.get(name, {}))
    more.setdefault("labelled", LABELLED if ids is None else None)
    support = make_support() if support is None else support
    return steepest.select(model, pool, k, name, ids=names, support=support, progress=False, **more)
