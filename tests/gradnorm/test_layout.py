"""Where the samples are in a tensor: found from two shapes, settled by gradients."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from test_rules import by_rules_alone
from torch import nn

from steepest.gradnorm import reference_norms
from steepest.gradnorm.layout import Layout, find_layouts
from steepest.gradnorm.steps import Step, settle

sizes = st.integers(1, 3)


@pytest.mark.parametrize(
    ("small", "large", "found"),
    [
        ([2, 5], [8, 5], [Layout(0)]),
        ([5, 2, 4], [5, 8, 4], [Layout(1)]),
        ([2, 2], [8, 2], [Layout(0)]),
        ([6, 4], [24, 4], [Layout(0, inner=3), Layout(0, outer=3)]),
        ([4, 10], [4, 40], [Layout(1, inner=5), Layout(1, outer=5)]),
    ],
)
def test_the_dimension_that_follows_the_batch_size_holds_the_samples(small, large, found):
    assert find_layouts(small, 2, large, 8) == found


@pytest.mark.parametrize(
    ("small", "large"),
    [
        ([3, 4], [3, 4]),
        ([2, 2], [8, 8]),
        ([2, 4], [8, 4, 1]),
        ([3, 4], [8, 4]),
        ([3, 4], [9, 4]),
        ([0, 4], [8, 4]),
        ([], []),
    ],
    ids=["fixed", "pairs", "ranks", "ragged", "one more", "empty", "number"],
)
def test_shapes_that_samples_do_not_explain_have_no_layout(small, large):
    assert find_layouts(small, 2, large, 8) == []


def numbered(layout, samples, before, after):
    """Return a tensor that says at each place whose it is, and one that numbers the places."""
    owner = torch.arange(samples)[:, None].expand(layout.outer, samples, layout.inner)
    shape = (*before, owner.numel(), *after)
    owners = owner.reshape(owner.numel(), *[1] * len(after)).expand(shape)
    return owners, torch.arange(owners.numel()).reshape(shape)


@settings(max_examples=40, deadline=None)
@given(sizes, sizes, sizes, st.lists(sizes, max_size=2), st.lists(sizes, max_size=2))
def test_every_place_goes_to_its_sample_and_no_place_is_lost(samples, outer, inner, before, after):
    layout = Layout(len(before), outer, inner)
    owners, places = numbered(layout, samples, before, after)
    first = layout.first(owners, samples)
    assert first.shape == (samples, *before, outer * inner, *after)
    assert all((row == n).all() for n, row in enumerate(first))
    spread = layout.first(places, samples)
    assert torch.equal(spread.flatten().sort().values, places.flatten())
    for n in range(samples):
        assert torch.equal(layout.one(places, n, samples), spread[n])


@settings(max_examples=40, deadline=None)
@given(sizes, sizes, st.booleans())
def test_the_places_of_a_sample_keep_their_order(samples, repeats, neighbours):
    layout = Layout(0, inner=repeats) if neighbours else Layout(0, outer=repeats)
    _, places = numbered(layout, samples, (), ())
    assert torch.equal(layout.first(places, samples).sort(1).values, layout.first(places, samples))


def test_a_shape_fits_if_the_dimension_has_room_for_all_samples():
    layout = Layout(1, inner=3)
    assert layout.repeats == 3
    assert layout.fits([5, 12, 2], 4)
    assert not layout.fits([5, 12, 2], 3)
    assert not layout.fits([12], 4)


def test_settling_an_order_holds_for_arguments_and_results_alike():
    step = Step(torch.add, "use", set())
    step.inputs = [Layout(0, inner=4), None, Layout(1)]
    step.outputs = [Layout(0, inner=2)]
    settle(step, Layout(0, outer=2))
    assert step.inputs == [Layout(0, outer=4), None, Layout(1)]
    assert step.outputs == [Layout(0, outer=2)]
    settle(step, Layout(0, inner=2))
    assert step.inputs[0] == Layout(0, inner=4)


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
def test_gradients_tell_which_of_two_orders_it_is(outermost, samples):
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


def test_the_better_of_two_orders_is_taken_where_gradients_fit_both():
    torch.manual_seed(0)
    model, x = Pooled().double().eval(), torch.randn(2, 2, 4, dtype=torch.float64)
    # Nearly all of each sample's gradient is where the other order has it, too.
    x[..., 0] = torch.tensor([[0.05, 1.0], [1.0, 0.05]])
    truth = reference_norms(model, x, norm="per-tensor")
    torch.testing.assert_close(by_rules_alone(model, x), truth, rtol=1e-9, atol=1e-13)
