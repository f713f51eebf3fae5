"""Samples that a model folds with frames or steps."""

from __future__ import annotations

import pytest
import torch
from test_rules import by_rules_alone
from torch import nn

from steepest.gradnorm import reference_norms


class Frames(nn.Module):
    """Frames of a clip folded into the batch, the samples outermost or innermost."""

    def __init__(self, *, samples_outermost: bool) -> None:
        super().__init__()
        self.outermost = samples_outermost
        self.conv = nn.Conv2d(2, 3, 3, padding=1)
        self.norm = nn.BatchNorm2d(3)
        self.each = nn.Linear(12, 5)
        self.head = nn.Linear(5, 3)

    def forward(self, x):
        samples, frames = x.shape[:2]
        order = (0, 1) if self.outermost else (1, 0)
        x = x.permute(*order, 2, 3, 4).flatten(0, 1)
        y = self.norm(self.conv(x)).tanh().flatten(1)
        y = self.each(y).tanh().unflatten(0, (samples, frames) if self.outermost else (frames, -1))
        return self.head(y.mean(1 if self.outermost else 0))


@pytest.mark.parametrize("outermost", [True, False])
@pytest.mark.parametrize("samples", [1, 2, 3, 9])
def test_samples_are_told_apart_in_either_order(outermost, samples):
    torch.manual_seed(0)
    model = Frames(samples_outermost=outermost).double().eval()
    model.norm.running_mean.normal_()
    x = torch.randn(samples, 3, 2, 2, 2, dtype=torch.float64)
    truth = reference_norms(model, x, norm="per-tensor")
    torch.testing.assert_close(by_rules_alone(model, x), truth, rtol=1e-9, atol=1e-13)


class Pooled(nn.Module):
    """Two time steps, the samples innermost; the first feature says how much a step counts."""

    def __init__(self) -> None:
        super().__init__()
        self.each, self.head = nn.Linear(4, 5), nn.Linear(5, 3)

    def forward(self, x):
        steps = self.each(x.transpose(0, 1).flatten(0, 1)).unflatten(0, (2, -1))
        return self.head((steps * x[..., :1].transpose(0, 1)).sum(0))


def test_steps_that_count_differently_stay_with_their_samples():
    torch.manual_seed(0)
    model, x = Pooled().double().eval(), torch.randn(2, 2, 4, dtype=torch.float64)
    # Nearly all of each sample's gradient is where the other order has it, too.
    x[..., 0] = torch.tensor([[0.05, 1.0], [1.0, 0.05]])
    truth = reference_norms(model, x, norm="per-tensor")
    torch.testing.assert_close(by_rules_alone(model, x), truth, rtol=1e-9, atol=1e-13)
