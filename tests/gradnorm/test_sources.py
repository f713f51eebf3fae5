"""Tensors that a model makes of its parameters alone."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import steepest
from steepest.gradnorm import reference_norms
from steepest.gradnorm.watch.sources import Source


def whole(*shape: int) -> Source:
    parameter = nn.Parameter(torch.randn(*shape))
    return Source(parameter, parameter)


def made(maker, *parents: Source) -> Source:
    """Return what a watched call makes of some sources."""
    origin = maker(*[parent.tensor for parent in parents])
    return Source(origin.detach().requires_grad_(), None, origin, list(parents), maker)


def rows(start, stop):
    return lambda tensor: tensor[start:stop]


def test_roots_are_found_through_several_steps():
    a, b = whole(3), whole(3)
    total = made(torch.add, made(torch.exp, a), b)
    assert total.roots() == {a.parameter, b.parameter}


class Two(nn.Module):
    """Two layers whose weights are made of one parameter."""

    def __init__(self, first, second) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 4))
        self.first, self.second = first, second
        self.head = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        left, right = F.linear(x, self.first(self.weight)), F.linear(x, self.second(self.weight))
        return self.head(torch.cat([left, right], 1).tanh())


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (rows(0, 2), rows(2, 4)),
        (rows(0, 2), rows(1, 3)),
        (rows(0, 2), rows(0, 2)),
        (rows(0, 2), lambda w: w.t()[2:]),
        (rows(0, 2), lambda w: w.clone()[2:]),
        (rows(0, 2), lambda w: w.clone()[1:3]),
        (rows(0, 2), lambda w: w.t().contiguous()[2:]),
        (rows(0, 2), lambda w: w.flip(0)[:2]),
    ],
    ids=["chunks", "overlap", "twice", "columns", "copy", "copied overlap", "moved", "flipped"],
)
def test_cross_terms_count_wherever_elements_are_shared(first, second):
    torch.manual_seed(0)
    model = Two(first, second).double().eval()
    x = torch.randn(5, 4, dtype=torch.float64)
    found = steepest.gradient_norms(model, x, norm="per-tensor")
    torch.testing.assert_close(found, reference_norms(model, x, norm="per-tensor"))


class Changed(nn.Module):
    """A weight made of a parameter, and changed before it is used."""

    def __init__(self, change) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 4))
        self.change = change
        self.head = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(F.linear(x, self.change(self.weight)).tanh())


def masked(weight: Tensor) -> Tensor:
    copy = weight.clone()
    copy[0] = 0
    return copy


def hooked(weight: Tensor) -> Tensor:
    made = weight * 1
    made.register_hook(lambda g: g * 3)
    return made


@pytest.mark.parametrize(
    "change",
    [
        lambda w: w.tanh() * 2,
        lambda w: w.detach() + w / 2,
        masked,
        hooked,
    ],
    ids=["function", "half", "masked in place", "hooked"],
)
def test_weights_that_are_made_and_changed_are_exact(change):
    torch.manual_seed(0)
    model = Changed(change).double().eval()
    x = torch.randn(5, 4, dtype=torch.float64)
    found = steepest.gradient_norms(model, x, norm="per-tensor")
    torch.testing.assert_close(found, reference_norms(model, x, norm="per-tensor"))
