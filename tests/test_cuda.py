"""What only a GPU can show; skipped where there is none."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch

import steepest
from steepest.gradnorm import reference_norms
from steepest.models import build
from steepest.progress import SilentProgress
from steepest.tasks import Classification
from steepest.training import Recipe, fit

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def train(**changes):
    pixels = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (600, 3, 16, 16), dtype=torch.uint8, generator=pixels)
    model = build("cifar-resnet18", 10, 3, 0)
    recipe = Recipe(epochs=3, milestones=(2,), batch_size=64, lr=0.02, **changes)
    fit(
        model,
        Classification(10),
        images,
        torch.arange(600) % 10,
        recipe,
        mean=(0.5,) * 3,
        std=(0.2,) * 3,
        augmentation="crop-flip",
        seed=1,
        device=torch.device("cuda"),
        progress=SilentProgress(),
    )
    return [value.cpu() for value in model.state_dict().values()]


@pytest.mark.parametrize("amp", [True, False])
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_a_recorded_step_is_the_plain_step(amp, optimizer):
    plain = train(amp=amp, optimizer=optimizer, cuda_graph=False)
    recorded = train(amp=amp, optimizer=optimizer)
    assert all(torch.equal(a, b) for a, b in zip(plain, recorded, strict=True))


def test_training_is_repeatable_and_leaves_the_global_state_alone():
    before = torch.cuda.get_rng_state()
    assert all(torch.equal(a, b) for a, b in zip(train(), train(), strict=True))
    assert torch.equal(torch.cuda.get_rng_state(), before)


def test_gradient_norms_on_a_gpu_equal_one_sample_autograd():
    model = build("cifar-resnet18", 10, 3, 0).eval()
    x = torch.randn(6, 3, 32, 32, generator=torch.Generator().manual_seed(2))
    truth = reference_norms(copy.deepcopy(model).double(), x.double())
    found = steepest.gradient_norms(model.cuda(), x.cuda()).cpu().double()
    # Convolutions use TF32 by default, which keeps about three digits.
    assert float(((found - truth).abs() / truth).max()) < 2e-3


def test_scoring_moves_to_the_gpu_and_leaves_the_model_where_it_is():
    model = build("small-cnn", 10, 3, 0)
    pool = torch.randn(300, 3, 16, 16, generator=torch.Generator().manual_seed(3))
    here = steepest.score(model, pool, "fisher-gradnorm", progress=False)
    there = steepest.score(model, pool, "fisher-gradnorm", device="cuda", progress=False)
    np.testing.assert_allclose(there.values, here.values, rtol=5e-2)
    assert next(model.parameters()).device.type == "cpu"
