"""Temporal output discrepancy, and what stands in for it in the first cycle."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from model_state import same, snapshot
from torch import nn

import steepest
from steepest.errors import InputError, ModelError
from steepest.strategies import Needs, Support, create

pytestmark = pytest.mark.filterwarnings("ignore::steepest.errors.RegimeWarning")


def net(seed, classes=4):
    torch.manual_seed(seed)
    layers = nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, classes)
    return nn.Sequential(*layers).double()


def points(n=14):
    return torch.randn(n, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(1)) * 4


def score(model, x, name="tod", options=None, **support):
    return steepest.score(
        model, x, name, options=options, support=Support(**support), seed=2, progress=False
    ).values


def difference(now, before, x):
    with torch.no_grad():
        return 0.5 * (now.eval()(x).softmax(1) - before.eval()(x).softmax(1)).square().sum(1)


def test_it_is_half_the_squared_change_of_probabilities():
    now, before, x = net(0), net(1), points()
    found = score(now, x, previous=before)
    np.testing.assert_allclose(found, difference(now, before, x), rtol=1e-9)
    assert found.max() <= 1


def test_nothing_has_changed_without_training():
    now = net(0)
    assert (score(now, points(), previous=copy.deepcopy(now)) == 0).all()


def test_dense_outputs_average_over_pixels():
    torch.manual_seed(0)
    now, before = nn.Conv2d(2, 3, 1).double(), nn.Conv2d(2, 3, 1).double()
    x = torch.randn(4, 2, 5, 5, dtype=torch.float64)
    wanted = difference(now, before, x).mean((1, 2))
    np.testing.assert_allclose(score(now, x, previous=before), wanted, rtol=1e-9)


def test_the_first_cycle_goes_by_entropy():
    found = score(net(0), points(), untrained=net(5))
    np.testing.assert_array_equal(found, score(net(0), points(), "entropy"))


def test_the_first_cycle_can_be_random_or_as_published():
    now, fresh, x = net(0), net(5), points()
    found = score(now, x, options={"first": "random"}, untrained=fresh)
    np.testing.assert_array_equal(found, score(now, x, "random"))
    found = score(now, x, options={"first": "published"}, untrained=fresh)
    np.testing.assert_allclose(found, -difference(now, fresh, x), rtol=1e-9)
    pick = steepest.select(
        now, x, 1, "tod", options={"first": "published"},
        support=Support(untrained=fresh), progress=False,
    )  # fmt: skip
    assert pick.ids == (int(difference(now, fresh, x).argmin()),)


def test_a_model_before_counts_more_than_an_untrained_one():
    now, before, x = net(0), net(1), points()
    for first in ("entropy", "random", "published"):
        found = score(now, x, options={"first": first}, previous=before, untrained=net(5))
        np.testing.assert_allclose(found, difference(now, before, x), rtol=1e-9)


def test_without_any_model_before_the_remedy_is_said():
    with pytest.raises(InputError, match=r"Support\(previous=model\)"):
        score(net(0), points())


def test_a_model_of_another_task_is_refused():
    with pytest.raises(ModelError, match=r"the model of the cycle before gives logits \[14, 5\]"):
        score(net(0), points(), previous=net(1, classes=5))


def test_the_model_before_is_left_as_found():
    now, before = net(0), net(1).train()
    state = snapshot(before)
    score(now, points(), previous=before)
    assert same(snapshot(before), state)


def test_it_asks_for_the_model_before_and_checks_its_option():
    assert Needs.PREVIOUS in create("tod").needs
    with pytest.raises(InputError, match="first"):
        create("tod", {"first": "smallest"})
