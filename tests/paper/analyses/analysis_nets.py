"""Small models and data for tests of the analyses, all made by a seed."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn

from steepest.core.seeds import generator
from steepest.influence import Examples
from steepest.tasks import Classification

CLASSES = 3
INPUTS = 4
TASK = Classification(CLASSES)


def draw(*shape: int, seed: int = 0, purpose: str = "data") -> Tensor:
    return torch.randn(*shape, generator=generator(seed, purpose), dtype=torch.float64)


def points(count: int, seed: int = 0) -> Examples:
    """Points in three clusters, a few of them with another's label."""
    labels = torch.randint(CLASSES, (count,), generator=generator(seed, "labels"))
    centres = 1.5 * draw(CLASSES, INPUTS, purpose="centres")
    noisy = torch.rand(count, generator=generator(seed, "noise")) < 0.1
    inputs = centres[labels] + draw(count, INPUTS, seed=seed)
    return Examples(inputs, torch.where(noisy, (labels + 1) % CLASSES, labels))


def part(examples: Examples, rows) -> Examples:
    index = torch.as_tensor(list(rows))
    return Examples(examples.inputs[index], examples.targets[index])


def net(hidden: int = 6, seed: int = 0) -> nn.Module:
    model = nn.Sequential(nn.Linear(INPUTS, hidden), nn.Tanh(), nn.Linear(hidden, CLASSES))
    with torch.no_grad():
        for name, tensor in model.named_parameters():
            drawn = torch.randn(tensor.shape, generator=generator(seed, name))
            tensor.copy_(0.7 * drawn)
    return model.double().eval()


def trained(model: nn.Module, examples: Examples, steps: int = 60, lr: float = 0.5) -> nn.Module:
    """Return a copy that has learnt from the examples."""
    model = copy.deepcopy(model)
    optimiser = torch.optim.SGD(model.parameters(), lr=lr, weight_decay=1e-3)
    for _ in range(steps):
        optimiser.zero_grad()
        nn.functional.cross_entropy(model(examples.inputs), examples.targets).backward()
        optimiser.step()
    optimiser.zero_grad()
    return model.eval()
