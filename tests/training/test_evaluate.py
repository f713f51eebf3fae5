from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from steepest.core.seeds import generator
from steepest.errors import InputError, NonFiniteError
from steepest.models import build
from steepest.modules.fingerprint import fingerprint
from steepest.training import normalise, predict_logits
from steepest.training.evaluate import samples_at_once

SCALE: dict[str, Any] = {"mean": (0.5,), "std": (0.25,), "device": torch.device("cpu")}


@pytest.fixture
def images():
    return torch.randint(256, (11, 1, 8, 8), generator=generator(0, "images")).to(torch.uint8)


def test_logits_are_those_of_eval_mode_for_any_batch_size(images):
    model = build("small-cnn", 3, 1, seed=0)
    wanted = model.eval()(normalise(images, (0.5,), (0.25,))).detach()
    model.train()
    for size in (1, 4, 512):
        logits = predict_logits(model, images, batch_size=size, **SCALE)
        assert torch.allclose(logits, wanted, atol=1e-5)
        assert logits.dtype == torch.float32
        assert not logits.requires_grad


@pytest.mark.parametrize(
    ("shape", "most"),
    [((), 512), ((32, 32), 512), ((64, 64), 128), ((16, 64, 64), 8), ((999,) * 2, 1)],
)
def test_large_samples_are_looked_at_few_at_a_time(shape, most):
    assert samples_at_once((10_000, 3, *shape), SCALE["device"]) == most


def test_the_model_is_left_as_it_was_found(images):
    model = build("small-cnn", 3, 1, seed=0)
    model.train()
    model.get_submodule("features.1").eval()
    modes = [module.training for module in model.modules()]
    before = fingerprint(model)
    predict_logits(model, images, **SCALE)
    assert [module.training for module in model.modules()] == modes
    assert fingerprint(model) == before


def test_the_mode_is_restored_after_an_error(images):
    model = nn.Sequential(nn.Flatten(), nn.Linear(3, 2))
    with pytest.raises(RuntimeError):
        predict_logits(model, images, **SCALE)
    assert model.training


def test_outputs_that_carry_logits_are_read(images):
    class Carrier(nn.Module):
        def forward(self, x):
            return {"logits": x.flatten(1)[:, :2]}

    assert list(predict_logits(Carrier(), images, **SCALE).shape) == [11, 2]


def test_logits_that_are_not_finite_are_refused(images):
    class Broken(nn.Module):
        def forward(self, x):
            return x.flatten(1)[:, :2] / 0

    with pytest.raises(NonFiniteError, match="lower lr"):
        predict_logits(Broken(), images, **SCALE)


def test_no_images_are_refused(images):
    model = build("small-cnn", 3, 1, seed=0)
    with pytest.raises(InputError, match="0 images"):
        predict_logits(model, images[:0], **SCALE)
    with pytest.raises(InputError, match="batches of 0"):
        predict_logits(model, images, batch_size=0, **SCALE)
