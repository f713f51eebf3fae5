"""What a model makes of its parameters alone: which elements of them a tensor shows."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import steepest
from steepest.gradnorm import reference_norms
from steepest.gradnorm.watch.sources import Source, spans_are_disjoint


def whole(*shape: int) -> Source:
    parameter = nn.Parameter(torch.randn(*shape))
    return Source(parameter, parameter)


def made(maker, *parents: Source) -> Source:
    """Return what a watched call makes of some sources."""
    origin = maker(*[parent.tensor for parent in parents])
    return Source(origin.detach().requires_grad_(), None, origin, list(parents), maker)


def rows(start, stop):
    return lambda tensor: tensor[start:stop]


def test_a_parameter_shows_all_of_itself():
    source = whole(4, 6)
    assert source.span() == (0, 24)
    assert source.roots() == {source.parameter}


def test_roots_are_found_through_several_steps():
    a, b = whole(3), whole(3)
    total = made(torch.add, made(torch.exp, a), b)
    assert total.roots() == {a.parameter, b.parameter}
    assert total.span() is None


@pytest.mark.parametrize(
    ("view", "span"),
    [
        (rows(1, 3), (6, 18)),
        (lambda w: w[2], (12, 18)),
        (lambda w: w.t(), (0, 24)),
        (lambda w: w.reshape(2, 12)[1], (12, 24)),
        (lambda w: w[None, :, None], (0, 24)),
        (lambda w: w[:, 2:4], None),
        (lambda w: w[::2], None),
        (lambda w: w[:1].expand(3, -1), None),
        (lambda w: w * 1, None),
        (lambda w: w.clone(), None),
        (lambda w: w.detach().view(torch.float64), None),
    ],
)
def test_a_view_shows_one_stretch_or_cannot_be_told(view, span):
    assert made(view, whole(4, 6)).span() == span


def test_views_of_views_add_up_their_offsets():
    half = made(rows(2, 4), whole(4, 6))
    assert half.span() == (12, 24)
    assert made(rows(1, 2), half).span() == (18, 24)


def test_a_copy_in_another_precision_shows_what_it_was_copied_from():
    parent = made(rows(2, 4), whole(4, 6))
    assert made(torch.Tensor.clone, parent).span() == (12, 24)
    double = made(torch.Tensor.double, parent)
    assert double.span() == (12, 24)
    assert made(rows(1, 2), double).span() == (18, 24)


def test_elements_apart_in_memory_cannot_be_counted():
    parameter = nn.Parameter(torch.randn(4, 12)[:, ::2])
    source = Source(parameter, parameter)
    assert source.span() == (0, 24)
    assert made(rows(0, 2), source).span() is None


def test_chunks_are_disjoint_and_overlaps_are_not():
    source = whole(6, 2)
    top, middle, bottom = (made(rows(k, k + 2), source) for k in (0, 2, 4))
    assert spans_are_disjoint([bottom, top, middle])
    assert not spans_are_disjoint([top, made(rows(1, 3), source)])
    assert not spans_are_disjoint([top, made(rows(0, 2), source)])
    assert not spans_are_disjoint([top, source])
    assert not spans_are_disjoint([top, made(lambda w: w[4:] * 2, source)])


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
