"""Gradients of what is made of parameters alone, sent back for all samples at once."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from steepest.gradnorm import GradientNorms, engine, reference_norms
from steepest.gradnorm.backward import components

CLASSES, HEADS, SIDE, WIDTH = 3, 2, 2, 4


@pytest.fixture(autouse=True)
def _unchecked(monkeypatch):
    """Let nothing be saved by the look at single samples."""
    monkeypatch.setattr(engine.Engine, "_disproved", lambda *_: set())


class Window(nn.Module):
    """Attention within a window, with a bias that a little net makes of distances (Swin V2)."""

    def __init__(self, made=lambda bias: bias) -> None:
        super().__init__()
        self.all, self.head = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, CLASSES)
        self.scale = nn.Parameter(torch.full((HEADS, 1, 1), 2.0))
        self.bias = nn.Sequential(
            nn.Linear(2, 6), nn.ReLU(inplace=True), nn.Linear(6, HEADS, bias=False)
        )
        self.made = made
        steps = torch.arange(1 - SIDE, SIDE)
        self.register_buffer("table", torch.cartesian_prod(steps, steps)[None].double())
        at = torch.cartesian_prod(torch.arange(SIDE), torch.arange(SIDE))
        apart = at[:, None] - at + SIDE - 1
        self.register_buffer("index", (apart[..., 0] * (2 * SIDE - 1) + apart[..., 1]).flatten())

    def forward(self, x: Tensor) -> Tensor:
        places = x.shape[1]
        q, k, v = self.all(x).unflatten(2, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        near = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-2, -1)
        near = near * torch.clamp(self.scale, max=4.6).exp()
        bias = self.bias(self.table).view(-1, HEADS)[self.index].view(places, places, -1)
        near = near + 16 * torch.sigmoid(self.made(bias.permute(2, 0, 1).contiguous())[None])
        return self.head((near.softmax(-1) @ v).transpose(1, 2).flatten(2).mean(1))


def check(model: nn.Module) -> None:
    x = torch.randn(5, SIDE**2, WIDTH, dtype=torch.float64)
    norms = GradientNorms(model, norm="per-tensor")
    truth = reference_norms(model, x, norm="per-tensor")
    assert bool((truth > 0).all())
    torch.testing.assert_close(norms(x), truth, rtol=1e-9, atol=1e-13)
    assert norms.engine.slow_names() == []


def test_a_bias_made_by_a_net_of_its_own_takes_one_pass_for_all_samples(monkeypatch):
    monkeypatch.setattr(components, "_one_by_one", None)
    torch.manual_seed(0)
    check(Window().double().eval())


class Rounded(torch.autograd.Function):
    """A function whose backward pass asks for values."""

    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx, g: Tensor) -> Tensor:
        return g * (2.0 if float(g.sum()) > 1e9 else 1.0)


def test_what_cannot_be_sent_back_at_once_goes_one_by_one(monkeypatch):
    count, one_by_one = [], components._one_by_one
    monkeypatch.setattr(
        components, "_one_by_one", lambda *given: count.append(1) or one_by_one(*given)
    )
    apply = torch.overrides.wrap_torch_function(lambda x: (x,))(Rounded.apply)

    def made(x: Tensor) -> Tensor:
        return apply(x)

    torch.manual_seed(0)
    check(Window(made).double().eval())
    assert count


def test_parents_that_share_a_gradient_do_not_spoil_each_other():
    class Sum(nn.Module):
        """A sum of two weights, of which one is normalised in place."""

        def __init__(self) -> None:
            super().__init__()
            self.plain = nn.Parameter(torch.randn(CLASSES, WIDTH))
            self.v, self.g = (
                nn.Parameter(torch.randn(CLASSES, WIDTH)),
                nn.Parameter(torch.ones(3, 1)),
            )

        def forward(self, x: Tensor) -> Tensor:
            return F.linear(x.mean(1), torch._weight_norm(self.v, self.g, 0) + self.plain)

    torch.manual_seed(0)
    check(Sum().double().eval())
