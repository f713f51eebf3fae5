"""Loads are the same for a seed, and nothing in them is zero, one or out of range."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from steepest.bench.library_models import TextEncoder, bert_base
from steepest.bench.trained_weights import settle
from steepest.bench.workloads import LIBRARY, WORKLOADS, find_workload
from steepest.errors import UnknownNameError
from steepest.models import names

SEVEN = {
    "cifar-resnet18": (3, 32, 32),
    "resnet50": (3, 224, 224),
    "vgg16": (3, 224, 224),
    "resnet3d-18": (1, 32, 32, 32),
    "drn-d-22": (3, 256, 256),
    "vit-s16": (3, 224, 224),
    "bert-base": (128,),
}


def test_the_seven_loads_have_their_sizes():
    assert {name: find_workload(name).shape for name in WORKLOADS} == SEVEN


def test_loads_name_models_that_exist():
    models = {find_workload(name).model for name in (*WORKLOADS, "small-cnn", "resnet3d-18-s2")}
    assert {model for model in models if ":" not in model} <= set(names())


def test_library_names_loads_of_every_kind():
    assert len(LIBRARY) == 16
    assert {find_workload(name).name for name in LIBRARY} == set(LIBRARY)


def test_an_unknown_load_is_an_error_that_names_the_nearest():
    with pytest.raises(UnknownNameError, match="did you mean 'resnet50'"):
        find_workload("resnet5")


def test_models_and_inputs_depend_on_the_seed_alone():
    load = find_workload("small-cnn")
    state = torch.random.get_rng_state()
    first, again, other = [load.make_model(seed).state_dict() for seed in (0, 0, 1)]
    assert all(torch.equal(first[key], again[key]) for key in first)
    assert not torch.equal(first["fc.weight"], other["fc.weight"])
    assert torch.equal(load.make_inputs(3, 0), load.make_inputs(3, 0))
    assert torch.equal(torch.random.get_rng_state(), state)


def test_models_are_in_eval_mode_with_statistics_of_their_own():
    model = find_workload("small-cnn").make_model(0)
    assert not any(module.training for module in model.modules())
    layers = [module for module in model.modules() if isinstance(module, nn.BatchNorm2d)]
    assert layers
    for norm in layers:
        assert norm.momentum == 0.1
        for values in (norm.running_mean, norm.running_var, norm.weight, norm.bias):
            assert values.detach().std() > 0


def test_a_head_of_zeros_is_spread_and_a_frozen_one_is_left():
    model = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 3))
    nn.init.zeros_(model[0].weight)
    nn.init.zeros_(model[1].weight).requires_grad_(False)
    before = model[1].bias.detach().clone()
    settle(model, torch.zeros(2, 4), 0)
    assert model[0].weight.detach().std() > 0
    assert not model[1].weight.any()
    assert torch.equal(model[1].bias, before)


def test_tokens_are_whole_numbers_of_the_vocabulary():
    tokens = find_workload("bert-base").make_inputs(4, 0)
    assert tokens.dtype == torch.int64
    assert tokens.shape == (4, 128)
    assert int(tokens.min()) >= 0
    assert int(tokens.max()) < 30522


def test_only_images_and_volumes_have_a_choice_of_layout():
    kinds = {name: find_workload(name).layout(channels_last=True) for name in WORKLOADS}
    assert kinds["resnet50"] is torch.channels_last
    assert kinds["resnet3d-18"] is torch.channels_last_3d
    assert kinds["bert-base"] is torch.contiguous_format
    assert find_workload("resnet50").layout(channels_last=False) is torch.contiguous_format


def test_batches_suit_the_device():
    load = find_workload("cifar-resnet18")
    assert load.batch(torch.device("cpu")) == 16
    assert load.batch(torch.device("cuda")) == 512


def test_the_text_encoder_has_the_size_of_bert_base():
    with torch.device("meta"):
        model = bert_base(2)
    assert sum(p.numel() for p in model.parameters()) == pytest.approx(109.5e6, rel=1e-3)


def test_the_text_encoder_keeps_samples_apart_and_minds_order():
    model = TextEncoder(3, vocabulary=20, width=8, depth=1, heads=2, longest=6).eval()
    tokens = torch.tensor([[1, 2, 3, 4], [4, 3, 2, 1]])
    logits = model(tokens)
    assert logits.shape == (2, 3)
    assert torch.allclose(logits[:1], model(tokens[:1]), atol=1e-6)
    assert not torch.allclose(logits[0], logits[1])
