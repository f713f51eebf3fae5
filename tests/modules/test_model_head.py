"""The layer that makes the logits is found in models of many shapes, or refused."""

from __future__ import annotations

import pytest
import torch
from model_state import same, snapshot
from torch import nn
from torch.nn import functional as F

from steepest.errors import ModelError
from steepest.models import build, extract_features, find_penultimate


def draw(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


class Net(nn.Module):
    """Two linear layers, and whatever ``finish`` does with them."""

    def __init__(self, finish):
        super().__init__()
        self.fc1, self.fc2, self.other = nn.Linear(6, 4), nn.Linear(4, 3), nn.Linear(4, 3)
        self.bn = nn.BatchNorm1d(3)
        self.scale = nn.Parameter(torch.ones(()))
        self.prototypes = nn.Parameter(torch.ones(3, 4))
        self.lstm = nn.LSTM(4, 3, batch_first=True)
        self.attention = nn.MultiheadAttention(4, 2, batch_first=True)
        self.finish = finish

    def forward(self, x):
        return self.finish(self, self.fc1(x).relu())


FOUND = {
    "plain": lambda net, h: net.fc2(h),
    "in a dict": lambda net, h: {"logits": net.fc2(h), "features": h},
    "temperature": lambda net, h: net.fc2(h) / 0.5 * net.scale,
    "log-softmax": lambda net, h: net.fc2(h).log_softmax(1),
    "half precision": lambda net, h: net.fc2(h).bfloat16().float(),
    "normalised": lambda net, h: net.bn(net.fc2(h)),
    "in place": lambda net, h: net.fc2(h).mul_(2),
    "in place over positions": lambda net, h: net.fc2(h[:, None]).mul_(2)[:, 0],
    "in place through a view": lambda net, h: (y := net.fc2(h), y.view(-1).mul_(2))[0],
    "reshaped": lambda net, h: net.fc2(h[:, None])[:, 0],
    "beside an unused head": lambda net, h: (net.other(h), net.fc2(h))[1],
    "by a detached hint": lambda net, h: net.fc2(h) + net.other(h).detach(),
}


@pytest.mark.parametrize("finish", FOUND.values(), ids=FOUND)
def test_the_head_is_found_whatever_comes_after_it(finish):
    model = Net(finish).eval()
    assert find_penultimate(model, draw(3, 6)) == "fc2"
    found = extract_features(model, draw(3, 6))
    assert torch.equal(found.penultimate, model.fc1(draw(3, 6)).relu())


UNCLEAR = {
    "two heads": lambda net, h: net.fc2(h) + net.other(h),
    "the head twice": lambda net, h: net.fc2(h) + net.fc2(-h),
    "a way around the head": lambda net, h: net.fc2(h) + h[:, :3],
    "a bare matrix": lambda net, h: F.linear(h, net.prototypes),
    "a bare matrix behind": lambda net, h: net.fc2(h) @ net.prototypes,
    "a recurrent layer": lambda net, h: net.lstm(h[:, None])[0][:, 0],
    "an attention": lambda net, h: net.attention(h[None], h[None], h[None])[0][0],
    "cut off": lambda net, h: net.fc2(h).detach(),
}


@pytest.mark.parametrize("finish", UNCLEAR.values(), ids=UNCLEAR)
def test_what_is_not_clear_is_refused_with_the_remedy(finish):
    model = Net(finish).eval()
    before = snapshot(model)
    with pytest.raises(ModelError, match=r"no single linear layer .* as by model.head_layers = "):
        find_penultimate(model, draw(3, 6))
    assert same(snapshot(model), before)
    named = extract_features(model, draw(3, 6), penultimate="fc1")
    assert torch.equal(named.penultimate, draw(3, 6))


def test_frozen_models_and_samples_of_inference_mode_do():
    model = Net(FOUND["plain"]).eval().requires_grad_(False)
    with torch.inference_mode():
        x = draw(3, 6)
        assert find_penultimate(model, x) == "fc2"
    assert not any(p.requires_grad for p in model.parameters())


def test_a_model_in_training_is_left_as_found():
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 2))
    before = snapshot(model)
    assert find_penultimate(model, draw(3, 4)) == "3"
    assert same(snapshot(model), before)


def test_a_head_that_was_exchanged_is_found_again():
    model, x = Net(FOUND["plain"]).eval(), draw(3, 6)
    assert find_penultimate(model, x) == "fc2"
    model.fc2 = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 7))
    assert find_penultimate(model, x) == "fc2.2"
    assert extract_features(model, x).penultimate.shape == (3, 5)


def test_a_model_that_is_one_layer_has_its_input_as_feature():
    model, x = nn.Linear(4, 3), draw(5, 4)
    assert find_penultimate(model, x) == ""
    assert torch.equal(extract_features(model, x).penultimate, x)


def test_a_narrow_convolution_may_be_the_head():
    narrow = nn.Sequential(nn.Conv2d(1, 4, 3), nn.Conv2d(4, 3, 1), nn.AdaptiveAvgPool2d(1))
    model, x = nn.Sequential(narrow, nn.Flatten()), draw(2, 1, 5, 5)
    assert find_penultimate(model, x) == "0.1"
    wanted = narrow[0](x).mean((2, 3))
    torch.testing.assert_close(extract_features(model, x).penultimate, wanted)
    wide = nn.Sequential(nn.Conv2d(1, 3, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    with pytest.raises(ModelError, match="nearest layers: 0"):
        find_penultimate(wide, x)


def test_layers_with_computed_weights_are_heads_too():
    head = nn.utils.parametrizations.weight_norm(nn.Linear(4, 3))
    assert find_penultimate(nn.Sequential(nn.Linear(4, 4), nn.ReLU(), head), draw(2, 4)) == "2"


def test_wrapped_models_are_looked_into():
    model = build("small-cnn", 5, 1, 0).eval()

    class Wrapper(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = model

        def forward(self, x):
            return self.net(x)

    assert find_penultimate(model, draw(2, 1, 8, 8)) == "fc"
    assert find_penultimate(Wrapper(), draw(2, 1, 8, 8)) == "net.fc"


def test_several_inputs_are_passed_on():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.out = nn.Linear(4, 3)

        def forward(self, a, b):
            return self.out(a + b)

    a, b = draw(3, 4), torch.ones(3, 4)
    assert torch.equal(extract_features(Two(), (a, b)).penultimate, a + b)
    assert torch.equal(extract_features(Two(), {"b": b, "a": a}).penultimate, a + b)
