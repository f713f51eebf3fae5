"""What the weights do not show is in the fingerprint as well."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from steepest.models import build
from steepest.models.vit_s16 import VisionTransformer
from steepest.modules.fingerprint import fingerprint


def test_stems_of_one_shape_are_told_apart():
    first, second = (build("resnet3d-18", 5, 1, 0, {"stem": stem}) for stem in ("s1", "s2"))
    one, two = first.state_dict(), second.state_dict()
    assert all(torch.equal(one[key], two[key]) for key in one)
    assert fingerprint(first) != fingerprint(second)


def test_dropout_placements_and_rates_are_told_apart():
    options = [{}, {"dropout": "head"}, {"dropout": "blocks"}]
    options += [{"dropout": "head", "dropout_rate": 0.1}]
    seen = {fingerprint(build("small-cnn", 5, 1, 0, o)) for o in options}
    assert len(seen) == 4
    assert fingerprint(build("small-cnn", 5, 1, 0, {"dropout": "none"})) in seen


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (nn.Conv2d(2, 2, 3, dilation=1), nn.Conv2d(2, 2, 3, dilation=2)),
        (nn.Conv2d(2, 2, 3, padding=1), nn.Conv2d(2, 2, 3, padding=1, padding_mode="reflect")),
        (nn.BatchNorm2d(2), nn.BatchNorm2d(2, eps=1e-3)),
        (nn.MultiheadAttention(8, 2), nn.MultiheadAttention(8, 4)),
        (nn.ReLU(), nn.GELU()),
        (nn.GELU(), nn.GELU(approximate="tanh")),
    ],
    ids=lambda layer: type(layer).__name__,
)
def test_layers_of_equal_weights_are_told_apart(one, other):
    first, second = nn.Sequential(one), nn.Sequential(other)
    second.load_state_dict(first.state_dict())
    assert fingerprint(first) != fingerprint(second)
    assert fingerprint(first) == fingerprint(copy.deepcopy(first))


def test_the_order_of_layers_without_weights_matters():
    orders = [(nn.ReLU(), nn.Softmax(1)), (nn.Softmax(1), nn.ReLU())]
    assert len({fingerprint(nn.Sequential(*order)) for order in orders}) == 2


def test_the_mode_and_what_others_hang_on_a_model_do_not_matter():
    model = VisionTransformer(3, 1, image_size=16, width=8, depth=1, heads=2, mlp_width=8)
    first = fingerprint(model)
    model.calls = 3  # type: ignore[assignment]
    handle = model.register_forward_hook(lambda *_: None)
    assert fingerprint(model.eval()) == fingerprint(model.train()) == first
    handle.remove()
    model(torch.zeros(1, 1, 16, 16))
    assert fingerprint(model) == first


class Talkative(nn.Module):
    def __init__(self, device, temperature=1.0):
        super().__init__()
        self.function = lambda x: x
        self.table = torch.zeros(2)
        self.device, self.temperature = device, temperature

    def extra_repr(self):
        said = f"{self.function}, tensor([0., 0.], device='{self.device}')"
        return f"{said}, temperature={self.temperature}"


def test_where_something_is_does_not_matter():
    assert fingerprint(Talkative("cpu")) == fingerprint(Talkative("cuda:0"))
    assert fingerprint(Talkative("cpu")) != fingerprint(Talkative("cpu", 2.0))


def test_lists_of_parameters_count_by_their_values():
    def make(value):
        model = nn.Module()
        model.scales = nn.ParameterList([torch.full((2,), value)])
        return model

    assert fingerprint(make(1.0)) == fingerprint(make(1.0)) != fingerprint(make(2.0))


def test_a_layer_used_twice_counts_like_two_of_the_kind():
    layer = nn.Linear(2, 2)
    shared, apart = nn.Sequential(layer, layer), nn.Sequential(layer, copy.deepcopy(layer))
    assert fingerprint(shared) == fingerprint(apart)
