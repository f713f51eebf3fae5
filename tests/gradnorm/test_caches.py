"""Models that keep what they made of their parameters in eval mode."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import steepest
from steepest.gradnorm import reference_norms


class Biased(nn.Module):
    """Looks its biases up once, as LeViT and TinyViT do."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(4, 5), nn.Linear(5, 3)
        self.biases = nn.Parameter(torch.randn(3))
        self.bias_cache: dict[str, Tensor] = {}

    def forward(self, x: Tensor) -> Tensor:
        if "cpu" not in self.bias_cache:
            self.bias_cache["cpu"] = self.biases[torch.tensor([0, 1, 2, 1, 0])].exp()
        return self.head((self.body(x) + self.bias_cache["cpu"]).tanh())


def validated(model: nn.Module, x: Tensor) -> None:
    with torch.no_grad():
        model(x)


def inferred(model: nn.Module, x: Tensor) -> None:
    with torch.inference_mode():
        model(x)


def sent_back(model: nn.Module, x: Tensor) -> None:
    torch.autograd.grad(model(x).sum(), list(model.parameters()))


@pytest.mark.parametrize("fill", [validated, inferred, sent_back])
def test_what_is_in_a_cache_takes_no_gradient_away(fill):
    torch.manual_seed(0)
    model, x = Biased().double().eval(), torch.randn(6, 4, dtype=torch.float64)
    fresh = steepest.gradient_norms(model, x, norm="per-tensor")
    assert model.bias_cache == {}
    assert bool((fresh > 0).all())
    fill(model, x)
    kept = model.bias_cache["cpu"]
    torch.testing.assert_close(steepest.gradient_norms(model, x, norm="per-tensor"), fresh)
    torch.testing.assert_close(reference_norms(model, x, norm="per-tensor"), fresh)
    assert model.bias_cache["cpu"] is kept
    assert len(model.bias_cache) == 1
