"""Sums of outer products, and the first batch."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from steepest.gradnorm.measure.outer import Outer
from steepest.gradnorm.measure.routes import Routes


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
