"""Architectures of other people, small and with drawn weights, against autograd."""

from __future__ import annotations

import pytest
import torch
from third_party import MODELS

from steepest.gradnorm import GradientNorms, reference_norms
from steepest.modules import batches

SINGLE = {"mixtral"}
"""Multiply in single precision alone."""

BY_LOOP = {"gcn", "gat"}
"""Take away the edges from nodes to themselves, of which graphs have more or fewer."""


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", MODELS)
def test_an_architecture_is_exact_and_takes_one_pass(name):
    pytest.importorskip("torch_geometric" if name in {*BY_LOOP, "gin"} else "transformers")
    if name == "lora":
        pytest.importorskip("peft")
    torch.manual_seed(0)
    model, inputs = MODELS[name]()
    kind = torch.float32 if name in SINGLE else torch.float64
    model.to(kind).eval()
    inputs = batches.move(inputs, torch.device("cpu"), kind)
    norms = GradientNorms(model, norm="per-tensor")
    truth = reference_norms(model, inputs, norm="per-tensor").double()
    size = truth.square().sum(1, keepdim=True).sqrt()
    for _ in range(2):
        found = norms(inputs).double()
        assert float(((found - truth).abs() / size).max()) < (1e-5 if name in SINGLE else 1e-10)
    assert bool(norms.engine.slow_names()) == (name in BY_LOOP)
