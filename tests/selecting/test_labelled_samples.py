"""Which samples are labelled, said by ids, by targets or by a pool of their own."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import steepest
from steepest.errors import InputError
from steepest.selecting.options import SelectionOptions
from steepest.strategies import Support

POOL = torch.randn(12, 4, generator=torch.Generator().manual_seed(0))
KNOWN = {1: 0, 4: 1, 9: 2}


@pytest.fixture
def model():
    torch.manual_seed(0)
    return nn.Linear(4, 3)


def choose(model, k=3, strategy="core-set", **more):
    return steepest.select(model, POOL, k, strategy, progress=False, **more)


@pytest.mark.parametrize("strategy", ["core-set", "isal", "margin"])
def test_targets_of_candidates_are_refused(model, strategy):
    everyone = Support(targets={i: i % 3 for i in range(12)})
    with pytest.raises(InputError, match=r"a target of sample \d+, which labelled= does not name"):
        choose(model, strategy=strategy, labelled=KNOWN, support=everyone)


@pytest.mark.parametrize("strategy", ["core-set", "isal", "random"])
def test_samples_with_targets_are_labelled_and_not_chosen(model, strategy):
    said = choose(model, 9, strategy, support=Support(targets=KNOWN), labelled=KNOWN)
    meant = choose(model, 9, strategy, support=Support(targets=KNOWN))
    assert meant == said
    assert not set(meant.ids) & set(KNOWN)
    with pytest.raises(InputError, match="only 9 samples can be chosen"):
        choose(model, 10, strategy, support=Support(targets=KNOWN))


@pytest.mark.parametrize("strategy", ["core-set", "typiclust", "probcover"])
def test_a_label_for_some_leaves_the_others_labelled(strategy):
    # The fourth to sixth sample are nearly copies of the first three, which are labelled.
    rows = [[0, 0], [10, 0], [0, 10], [0, 0.1], [10, 0.1], [0.1, 10], [3, 3], [2, 2]]
    pool = torch.tensor(rows, dtype=torch.float32)
    model = nn.Sequential(nn.Identity(), nn.Linear(2, 3))
    by_ids, by_some = (
        steepest.select(model, pool, 2, strategy, labelled=[0, 1, 2], support=s, progress=False)
        for s in (None, Support(targets={0: 0}))
    )
    assert by_some == by_ids
    if strategy == "core-set":
        assert set(by_ids.ids) == {6, 7}


def test_a_strategy_that_learns_labels_sees_those_with_labels_alone(model):
    some = choose(model, strategy="isal", labelled=KNOWN, support=Support(targets={1: 0, 4: 1}))
    both = choose(model, strategy="isal", labelled=[1, 4, 9], support=Support(targets=KNOWN))
    assert len(some) == len(both) == 3


def test_targets_of_another_pool_say_nothing_of_this_one(model):
    other = Support(labelled=torch.zeros(2, 4), targets={0: 1, 1: 2})
    assert len(choose(model, 12, "isal", support=other)) == 12


@pytest.mark.parametrize("kind", [iter, set, np.array, torch.tensor, lambda i: map(np.int64, i)])
def test_labelled_ids_come_in_any_form(model, kind):
    wanted = choose(model, labelled=[1, 4, 9])
    assert choose(model, labelled=kind([1, 4, 9])) == wanted


def test_features_by_id_are_refused_where_an_id_means_two_samples(model):
    features = dict(enumerate(POOL))
    with pytest.raises(InputError, match=r"sample \d is a candidate and one of Support.labelled"):
        choose(model, support=Support(labelled=torch.zeros(2, 4), features=features))
    # Without them the rows of two tensors may be numbered alike.
    assert len(choose(model, support=Support(labelled=torch.zeros(2, 4)))) == 3


def test_a_labelled_pool_may_hold_what_is_left_out_of_this_one(model):
    class Known(torch.utils.data.TensorDataset):
        ids = (1, 4, 9)

    features = dict(enumerate(POOL))
    apart = Support(labelled=Known(POOL[[1, 4, 9]]), features=features)
    inside = choose(model, labelled=KNOWN, support=Support(features=features))
    assert choose(model, labelled=KNOWN, support=apart) == inside


def test_how_to_look_is_said_by_name():
    with pytest.raises(TypeError, match="positional"):
        SelectionOptions([1], 5)
    assert SelectionOptions(labelled=[1], subset=5).subset == 5
