"""Every rule against autograd, for shapes drawn at random."""

from __future__ import annotations

from unittest import mock

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from nets import NETS
from torch import nn

import steepest
from steepest.gradnorm import reference_norms, rules
from steepest.gradnorm.engine import Engine

SPATIAL = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}
NORMS = {0: nn.BatchNorm1d, 1: nn.BatchNorm1d, 2: nn.BatchNorm2d, 3: nn.BatchNorm3d}
few = settings(max_examples=25, deadline=None)


class Summed(nn.Module):
    """One layer, then two logits that depend on all its outputs in different ways."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x):
        y = self.layer(x).flatten(1)
        ramp = torch.linspace(-1, 1, y.shape[1], dtype=y.dtype)
        return torch.stack([(y * ramp).sum(1), (y.square() * ramp.flip(0)).sum(1)], dim=1)


def check(layer: nn.Module, x: torch.Tensor, *, rules_alone: bool = True) -> None:
    model = Summed(layer).double().eval()
    if rules_alone:
        found = _without_loop(model, x)
    else:
        found = steepest.gradient_norms(model, x, norm="per-tensor")
    truth = reference_norms(model, x, norm="per-tensor")
    torch.testing.assert_close(found, truth, rtol=1e-8, atol=1e-12)


def _without_loop(model, x):
    """Measure with the rules alone: the loop must have nothing to do."""
    engine = Engine(model)
    engine._by_loop = lambda *_: pytest.fail("the slow path was taken")  # type: ignore[method-assign]
    from steepest.gradnorm.losses import resolve

    _, (squares,) = engine.squared_norms(x, resolve("entropy", None, len(x)))
    return squares.sqrt()


def normal(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(5))


@few
@given(st.integers(1, 3), st.integers(1, 4), st.integers(1, 5), st.integers(0, 2), st.booleans())
def test_linear(samples, inputs, outputs, extra_dims, bias):
    x = normal(samples, *[3] * extra_dims, inputs)
    check(nn.Linear(inputs, outputs, bias=bias), x)


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel")  # only a copy
@pytest.mark.parametrize("route", ["pixels", "rows", "patches"])
@few
@given(st.data())
def test_convolution(route, data):
    dims = data.draw(st.integers(1, 3))
    groups = data.draw(st.integers(1, 3))
    kernel = [data.draw(st.integers(1, 3)) for _ in range(dims)]
    stride = [data.draw(st.integers(1, 2)) for _ in range(dims)]
    dilation = [data.draw(st.integers(1, 2)) for _ in range(dims)]
    padding = data.draw(st.sampled_from(["valid", "same", 0, 1, 2]))
    mode = data.draw(st.sampled_from(["zeros", "reflect", "replicate", "circular"]))
    if padding == "same":
        stride = [1] * dims
    layer = SPATIAL[dims](
        groups * data.draw(st.integers(1, 2)),
        groups * data.draw(st.integers(1, 2)),
        tuple(kernel),
        stride=tuple(stride),
        dilation=tuple(dilation),
        padding=padding,
        padding_mode=mode,
        groups=groups,
        bias=data.draw(st.booleans()),
    )
    chosen = route if groups == 1 else "patches"
    with mock.patch.object(rules, "_route", return_value=chosen):
        check(layer, normal(2, layer.in_channels, *[6] * dims))


@few
@given(st.integers(0, 3), st.integers(2, 4), st.integers(1, 3))
def test_batch_norm(dims, channels, samples):
    layer = NORMS[dims](channels)
    layer.running_mean.copy_(torch.linspace(-1, 1, channels))
    layer.running_var.copy_(torch.linspace(0.5, 2, channels))
    check(layer, normal(samples, channels, *[3] * dims))


@few
@given(st.integers(0, 2), st.integers(1, 3), st.integers(1, 3), st.integers(1, 3))
def test_group_norm(dims, groups, per_group, samples):
    x = normal(samples, groups * per_group, *[4] * dims)
    if groups * per_group == groups and dims == 0:
        x = x[..., None].expand(-1, -1, 2)
    check(nn.GroupNorm(groups, groups * per_group), x)


@few
@given(st.integers(1, 2), st.integers(0, 2), st.booleans())
def test_layer_norm(normalised, extra_dims, bias):
    shape = [4] * normalised
    check(nn.LayerNorm(shape, bias=bias), normal(2, *[3] * extra_dims, *shape))


@few
@given(st.integers(1, 6), st.integers(0, 2), st.sampled_from([None, 0, 3]))
def test_embedding_adds_up_repeated_words(length, extra_dims, padding):
    shape = (3, *[2] * extra_dims, length)
    ids = torch.randint(0, 5, shape, generator=torch.Generator().manual_seed(length))
    check(nn.Embedding(5, 3, padding_idx=padding), ids)


def test_tiny_scratch_space_changes_nothing(monkeypatch):
    monkeypatch.setattr(rules, "_CHUNK_FLOATS", 1)
    check(nn.Conv2d(2, 3, 3), normal(4, 2, 6, 6))
    check(nn.Conv2d(8, 8, 1), normal(4, 8, 2, 2))
    check(nn.Linear(4, 4), normal(4, 3, 4))
    check(nn.Embedding(5, 3), torch.randint(0, 5, (4, 6)))


def test_frozen_parameters_do_not_count():
    layer = nn.Conv2d(2, 3, 3)
    layer.weight.requires_grad_(False)
    check(layer, normal(3, 2, 6, 6))


@pytest.mark.parametrize("name", ["volume", "depthwise", "dense"])
def test_plain_nets_never_take_the_slow_path(name):
    net, draw = NETS[name]
    _without_loop(net().double().eval(), draw(3).double())


def test_unusual_embeddings_are_left_to_autograd():
    assert rules.rule_for(nn.Embedding(5, 3)) is not None
    assert rules.rule_for(nn.Embedding(5, 3, scale_grad_by_freq=True)) is None
    assert rules.rule_for(nn.Embedding(5, 3, max_norm=1.0)) is None
    check(
        nn.Embedding(5, 3, scale_grad_by_freq=True),
        torch.tensor([[1, 1, 2]] * 3),
        rules_alone=False,
    )


def test_sparse_embedding_gradients_are_measured():
    check(nn.Embedding(5, 3, sparse=True), torch.tensor([[1, 1, 2], [0, 3, 3]]))


def test_a_subclass_of_a_layer_has_no_rule():
    class Doubled(nn.Linear):
        def forward(self, x):
            return super().forward(x) * 2

    assert rules.rule_for(Doubled(2, 2)) is None
    check(Doubled(4, 3), normal(3, 4), rules_alone=False)


def test_a_second_rule_for_a_layer_is_refused():
    with pytest.raises(ValueError, match="two rules for Linear"):
        rules.rule(nn.Linear)(rules.linear)


def test_the_cheaper_route_depends_on_the_map():
    deep, wide = nn.Conv2d(256, 256, 3, padding=1), nn.Conv2d(64, 64, 3, padding=1)
    assert rules._route(deep, 10 * 10, 8 * 8) == "pixels"
    assert rules._route(wide, 34 * 34, 32 * 32) == "rows"
    assert rules._route(nn.Conv2d(3, 64, 3, padding=1), 34 * 34, 32 * 32) == "patches"
    assert rules._route(nn.Conv2d(64, 64, 3, groups=2), 10 * 10, 8 * 8) == "patches"
