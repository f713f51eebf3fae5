"""Where a backward pass starts: at the logits, if nothing else leads to the parameters."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from torch import nn

from steepest.gradnorm.backward.scaling import only_through, scaled_sum
from steepest.gradnorm.measure.outer import Outer
from steepest.gradnorm.measure.routes import Routes
from steepest.modules.losses import entropy


def small_net() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 3)).double().eval()


def samples(number: int = 6) -> torch.Tensor:
    return torch.randn(number, 5, dtype=torch.float64)


def assert_same_gradient(model, values, logits) -> None:
    """Hold what is sent back against the losses times their scales."""
    loss, scales = scaled_sum(values, logits, by_values=True)
    assert not torch.equal(scales, torch.ones_like(scales))
    weights = list(model.parameters())
    found = torch.autograd.grad(loss, weights, retain_graph=True)
    truth = torch.autograd.grad((values * scales).sum(), weights)
    torch.testing.assert_close(found, truth, rtol=1e-10, atol=1e-12)


def test_the_losses_of_logits_lead_through_them_alone():
    logits = small_net()(samples())
    assert only_through(entropy(logits), logits)
    assert only_through(logits.sum(1), logits)


def test_a_parameter_within_the_loss_is_another_way():
    model = small_net()
    logits = model(samples())
    assert not only_through(logits.sum(1) + model[0].weight.sum(), logits)
    assert not only_through(model[0](samples()).sum(1), logits)


def test_the_twin_of_the_logits_is_another_way():
    logits, twin = small_net()(samples()).split(2, dim=1)
    assert not only_through(logits.sum(1) * twin.sum(1), logits)


def test_what_is_sent_back_has_the_gradient_of_the_scaled_losses():
    model = small_net()
    logits = model(samples())
    assert_same_gradient(model, entropy(logits), logits)


def test_a_loss_may_look_at_parameters_itself():
    model = small_net()
    logits = model(samples())
    assert_same_gradient(model, entropy(logits) + model[0].weight.square().sum(), logits)


def test_a_loss_may_look_past_the_logits():
    model = small_net()
    inner = model[:2](samples())
    logits = model[2](inner)
    assert_same_gradient(model, entropy(logits) + inner.square().sum(1), logits)


def test_a_hook_on_the_logits_changes_the_gradient_once():
    model = small_net()
    logits = model(samples())
    logits.register_hook(lambda g: 3 * g)
    assert_same_gradient(model, entropy(logits), logits)


def test_faint_gradients_keep_their_digits():
    logits = torch.zeros(2, 3, requires_grad=True) * 1.0
    factors = torch.tensor([[1.0, 2.0, 3.0], [1.1e-43, 2.3e-43, 3.7e-43]], dtype=torch.float64)
    loss, scales = scaled_sum((logits * factors).sum(1), logits, by_values=True)
    (gradient,) = torch.autograd.grad(loss, logits)
    torch.testing.assert_close(gradient.double() / scales[:, None], factors, rtol=1e-6, atol=0)


@pytest.mark.parametrize(("fan_in", "fan_out"), [(27, 16), (16, 27), (9, 8), (6, 5)])
def test_gradients_are_squared_whichever_way_round_they_are_built(fan_in, fan_out):
    torch.manual_seed(0)
    a, g = torch.randn(4, 2, 40, fan_in), torch.randn(4, 2, 40, fan_out)
    share = Outer(a, g, torch.Size([2 * fan_out, fan_in]))
    truth = share.dense(slice(None)).flatten(1).double().square().sum(1)
    for route in ("instantiate", "gram"):
        torch.testing.assert_close(share._by(route, Routes()).double(), truth, rtol=1e-5, atol=0)


def test_a_first_batch_does_not_wait_for_the_compiler():
    program = (
        "import sys, torch, steepest\n"
        "model = torch.nn.Sequential(torch.nn.Linear(2, 3)).eval()\n"
        "steepest.gradient_norms(model, torch.ones(2, 2))\n"
        "print(sorted({'torch._dynamo', 'sympy'} & set(sys.modules)))\n"
    )
    told = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    assert told.stdout == "[]\n"
