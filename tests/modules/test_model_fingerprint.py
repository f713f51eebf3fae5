from __future__ import annotations

import copy
import re

import torch
from torch import nn

from steepest.models import build
from steepest.modules.fingerprint import fingerprint


def test_equal_weights_have_equal_fingerprints():
    model = build("small-cnn", 10, 1, seed=0)
    first = fingerprint(model)
    assert re.fullmatch("[0-9a-f]{16}", first)
    assert fingerprint(copy.deepcopy(model)) == first
    assert fingerprint(build("small-cnn", 10, 1, seed=1)) != first


def test_memory_format_mode_and_requires_grad_do_not_matter():
    model = build("small-cnn", 10, 3, seed=0)
    first = fingerprint(model)
    model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    assert not model.get_parameter("features.0.weight").is_contiguous()
    assert fingerprint(model.eval().requires_grad_(False)) == first


def test_one_bit_of_a_weight_or_a_buffer_matters():
    model = build("small-cnn", 10, 1, seed=0)
    seen = {fingerprint(model)}
    with torch.no_grad():
        model.get_parameter("fc.bias")[3].nextafter_(torch.tensor(9.0))
        seen.add(fingerprint(model))
        model.get_buffer("features.1.running_mean")[0] += 1e-6
        seen.add(fingerprint(model))
        model.get_buffer("features.1.num_batches_tracked").add_(1)
        seen.add(fingerprint(model))
    assert len(seen) == 4


def test_shape_dtype_name_and_class_matter():
    zeros: list[nn.Module] = [nn.Linear(2, 3, bias=False), nn.Linear(3, 2, bias=False)]
    zeros += [nn.Linear(2, 3, bias=False).half(), nn.Linear(2, 3, bias=False).bfloat16()]
    zeros += [
        nn.Sequential(nn.Linear(2, 3, bias=False)),
        type("Own", (nn.Linear,), {})(2, 3, False),
    ]
    for model in zeros:
        nn.init.zeros_(next(model.parameters()))
    assert len({fingerprint(model) for model in zeros}) == len(zeros)


def test_models_without_weights_have_a_fingerprint():
    assert fingerprint(nn.ReLU()) != fingerprint(nn.GELU())
