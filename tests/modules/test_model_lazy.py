"""Layers that have no weights before they have seen a sample."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import steepest
from steepest.errors import ModelError
from steepest.models import load_weights, save_weights
from steepest.modules.fingerprint import fingerprint
from steepest.modules.lazy import find_lazy, make_lazy


def make():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(4, 5), nn.LazyBatchNorm1d(), nn.Dropout(0.5), nn.LazyLinear(6), nn.Linear(6, 3)
    )


def test_lazy_weights_are_made_by_the_seed_alone():
    made = [make() for _ in range(3)]
    torch.manual_seed(9)
    state = torch.random.get_rng_state()
    for model, count, seed in zip(made, (1, 7, 1), (1, 1, 2), strict=True):
        make_lazy(model, torch.ones(count, 4), seed)
    assert torch.equal(torch.random.get_rng_state(), state)
    first, same, other = made
    assert fingerprint(first) == fingerprint(same) != fingerprint(other)
    assert torch.equal(first[0].weight, other[0].weight)
    assert first.training
    assert first[3].training
    assert first[1].num_batches_tracked == 0
    assert find_lazy(first) is None


def test_a_model_without_all_its_weights_says_how_to_make_them(tmp_path):
    trained = make()
    make_lazy(trained, torch.zeros(1, 4), 0)
    save_weights(trained, tmp_path / "w.safetensors")
    pool = torch.zeros(6, 4)
    for use in (
        fingerprint,
        lambda model: steepest.select(model, pool, 2, progress=False),
        lambda model: steepest.score(model, pool, progress=False),
        lambda model: load_weights(model, tmp_path / "w.safetensors"),
    ):
        with pytest.raises(ModelError, match=r"1\.weight of Sequential.*run the model once on a"):
            use(make())


def test_a_lazy_model_that_has_seen_a_sample_is_like_any_other():
    model = make().eval()
    model(torch.zeros(1, 4))
    assert len(steepest.score(model, torch.randn(6, 4), progress=False).values) == 6


def test_a_model_that_fails_on_the_sample_says_so():
    with pytest.raises(ModelError, match=r"the model failed on inputs \[N, 9\] .*, N = 1"):
        make_lazy(make(), torch.zeros(1, 9), 0)
