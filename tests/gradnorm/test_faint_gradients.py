"""Gradients that are denormal for some samples: they are rounded, which is no disorder."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from steepest.gradnorm import GradientNorms, explain, reference_norms


class Gated(nn.Module):
    """Multiplies the features of a sample by its first pixel, as a gate that may be nearly shut."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 6, 3, padding=1)
        self.norm = nn.BatchNorm2d(6)
        self.depthwise = nn.Conv2d(6, 6, 3, padding=1, groups=6)
        self.tokens = nn.Linear(6, 6)
        self.head = nn.Linear(6, 4)

    def forward(self, x):
        features = self.depthwise(F.silu(self.norm(self.stem(x)))) * x[:, :1, :1, :1]
        return self.head(self.tokens(features.flatten(2).transpose(1, 2)).mean(1))


@pytest.mark.parametrize("gate", [1e-37, 1e-39, 1e-42, 1e-44])
@pytest.mark.parametrize("shut", [[0, 3], list(range(10))])
def test_some_denormal_gradients_send_nothing_to_the_loop(gate, shut):
    torch.manual_seed(0)
    model, x, other = Gated().eval(), torch.randn(10, 3, 5, 5), torch.randn(10, 3, 5, 5)
    plain = {layer.route for layer in explain(model, other).layers}
    x[shut, 0, 0, 0] = gate
    norms = GradientNorms(model)
    exact = [reference_norms(copy.deepcopy(model).double(), some.double()) for some in (x, other)]
    for some, truth in zip((x, other), exact, strict=True):
        torch.testing.assert_close(norms(some).double(), truth, rtol=1e-5, atol=0)
        assert norms.engine.slow_names() == []
    assert {layer.route for layer in explain(model, x).layers} == plain
