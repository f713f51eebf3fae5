"""Targets and features that users give, in all the ways they come."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import steepest
from steepest.errors import InputError
from steepest.strategies import Support
from steepest.strategies.batch import Batch, stack_features
from steepest.strategies.feature_rows import finite_rows

COUNT = 20
POOL = torch.zeros(COUNT, 2)
ROWS = torch.randn(COUNT, 5, generator=torch.Generator().manual_seed(3))
BY_FEATURES = ["badge", "cluster-margin", "core-gcn", "core-set", "probcover", "typiclust"]


@pytest.fixture
def model():
    torch.manual_seed(0)
    return nn.Linear(2, 3)


def choose(model, features, strategy="core-set", **more):
    options = {"epochs": 3} if strategy == "core-gcn" else {}
    return steepest.select(
        model, POOL, 4, strategy, options=options, labelled=[0, 1], progress=False,
        support=Support(features=features), **more,
    ).ids  # fmt: skip


@pytest.mark.parametrize("name", ["features", "targets"])
@pytest.mark.parametrize("given", [ROWS, ROWS.numpy(), list(ROWS), None])
def test_what_is_not_given_by_id_is_refused(name, given):
    with pytest.raises(InputError, match=rf"{name} must be given by id, as dict\(zip\(ids, "):
        Support(**{name: given})


@pytest.mark.parametrize("as_row", [torch.Tensor.numpy, torch.Tensor.tolist])
def test_vectors_of_any_kind_are_the_same(model, as_row):
    wanted = choose(model, dict(enumerate(ROWS)))
    assert choose(model, {i: as_row(row) for i, row in enumerate(ROWS)}) == wanted


def test_given_features_ask_for_no_layer_of_the_model(model):
    class Passing(nn.Module):
        def forward(self, x):
            return x

    features = dict(enumerate(ROWS))
    assert choose(Passing(), features) == choose(model, features)


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (torch.float64, torch.float64),
        (torch.float32, torch.float32),
        (torch.bfloat16, torch.float32),
    ],
)
def test_features_are_of_single_precision_at_least(given, kept):
    assert finite_rows(ROWS.to(given), range(COUNT)).dtype == kept


@pytest.mark.parametrize("strategy", BY_FEATURES)
def test_single_numbers_are_vectors_of_one(model, strategy):
    numbers = {i: float(row[0]) for i, row in enumerate(ROWS)}
    assert choose(model, numbers, strategy) == choose(
        model, {i: [value] for i, value in numbers.items()}, strategy
    )


@pytest.mark.parametrize("first", ["features", "maps"])
def test_given_features_are_taken_whether_or_not_the_model_s_maps_are_too(first):
    class Blocks(nn.Module):
        block_layers, head_layers = ("block",), ("head",)

        def __init__(self):
            super().__init__()
            self.block, self.head = nn.Conv2d(1, 2, 1), nn.Linear(2, 3)

        def forward(self, x):
            return self.head(self.block(x).mean((2, 3)))

    batch = Batch([4, 7], torch.zeros(2, 1, 3, 3), model=Blocks(), features=dict(enumerate(ROWS)))
    getattr(batch, first)
    assert [list(block.shape) for block in batch.maps] == [[2, 2, 3, 3]]
    assert torch.equal(batch.features, ROWS[[4, 7]])


@pytest.mark.parametrize("first", [torch.int64, torch.float16])
def test_the_type_of_the_first_vectors_is_not_forced_on_the_others(model, first):
    values = {i: 1e5 * row for i, row in enumerate(ROWS)}
    wanted = choose(model, values | {i: torch.zeros(5) for i in range(10)}, batch_size=1)
    coarse = {i: torch.zeros(5, dtype=first) for i in range(10)}
    assert choose(model, values | coarse, batch_size=1) == wanted


@pytest.mark.parametrize("batch_size", [1, 64])
@pytest.mark.parametrize("odd", [torch.zeros(3), torch.zeros(1)])
def test_vectors_of_another_length_are_refused(model, odd, batch_size):
    for sample in (5, 0):  # a candidate and a labelled one
        features = {**dict(enumerate(ROWS)), sample: odd}
        with pytest.raises(InputError, match=r"numbers where|of shape|features and candidates"):
            choose(model, features, batch_size=batch_size)


def test_the_first_vector_of_another_length_is_named():
    given = {"a": [1.0, 2.0], "b": [3.0, 4.0], "c": [5.0], "d": [6.0, 7.0]}
    with pytest.raises(InputError, match=r"sample 'c' are of shape \[1\], others of \[2\]"):
        stack_features(given)


def test_labelled_samples_need_as_many_features_as_candidates(model):
    features = {i: row[:3] if i < 2 else row for i, row in enumerate(ROWS)}
    for strategy in ("core-set", "typiclust"):
        with pytest.raises(InputError, match=f"{strategy}: labelled samples have 3 features"):
            choose(model, features, strategy)


@pytest.mark.parametrize(
    ("value", "said"), [("a text", "are no numbers"), (torch.zeros(0), "features are empty")]
)
def test_what_is_no_vector_is_refused(model, value, said):
    with pytest.raises(InputError, match=said):
        choose(model, dict.fromkeys(range(COUNT), value))


@pytest.mark.parametrize("strategy", BY_FEATURES)
@pytest.mark.parametrize("scale", [1e25, 1e-25])
def test_features_whose_squares_single_precision_cannot_hold_still_tell_samples_apart(
    model, strategy, scale
):
    features = {i: row * scale for i, row in enumerate(ROWS)}
    picks = choose(model, features, strategy)
    assert len(set(picks)) == 4
    if strategy in ("badge", "core-set"):  # They do not depend on the scale.
        assert picks == choose(model, dict(enumerate(ROWS.double())), strategy)


@pytest.mark.parametrize("targets", [{0: "cat", 1: "dog"}, {0: [1, 2], 1: [1]}])
def test_targets_that_make_no_tensor_are_refused(targets):
    with pytest.raises(InputError, match="targets must be numbers of classes"):
        Support(targets=targets).targets_of([0, 1])
    assert np.array_equal(Support(targets={0: 1, 1: 2}).targets_of([1, 0]), [2, 1])
