"""Core-set as a strategy: which features it sees, and what it takes for a centre."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import steepest
from steepest.errors import InputError, NonFiniteError, SettingWarning, UnknownNameError
from steepest.strategies import Support, create


class Flat(nn.Module):
    """A model whose features are its inputs."""

    def __init__(self, width=2):
        super().__init__()
        self.head = nn.Linear(width, 3)

    def forward(self, x):
        return self.head(x)


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def choose(pool, k, model=None, **more):
    model = model or Flat(pool.shape[1])
    return steepest.select(model, pool, k, "core-set", progress=False, **more)


def test_it_takes_what_is_farthest_from_labelled_and_chosen():
    pool = torch.tensor([[0.0, 0], [0.1, 0], [5, 0], [0, 8], [0.2, 0], [5, 0.1]])
    picks = choose(pool, 3, labelled=[0])
    assert picks.ids[0] == 3
    assert picks.ids[1] in {2, 5}
    assert picks.ids[2] == 4
    np.testing.assert_allclose(picks.scores[0], 8)
    assert picks.regime is not None


def test_a_duplicate_of_a_labelled_sample_comes_last():
    pool = normal(20, 4)
    pool[7] = pool[3]
    picks = choose(pool, 19, labelled=[3])
    assert picks.ids[-1] == 7
    assert picks.scores[-1] == 0
    assert list(picks.scores) == sorted(picks.scores, reverse=True)


def test_turning_the_features_changes_nothing():
    pool = normal(60, 5).double()
    turn = torch.linalg.qr(normal(5, 5, seed=1).double()).Q
    straight = choose(pool, 20, Flat(5).double(), labelled=[0, 1])
    assert choose(pool @ turn, 20, Flat(5).double(), labelled=[0, 1]).ids == straight.ids


def test_without_labelled_samples_the_first_is_nearest_the_mean():
    pool = normal(30, 2)
    nearest = int((pool - pool.mean(0)).norm(dim=1).argmin())
    assert choose(pool, 4).ids[0] == nearest


def test_labelled_samples_may_be_a_pool_of_their_own():
    pool = torch.tensor([[0.0, 0], [1, 0], [2, 0]])
    near = Support(labelled=torch.tensor([[2.0, 0.1]]))
    assert choose(pool, 1, support=near).ids == (0,)


def test_features_of_ones_own_are_taken_instead():
    pool = normal(4, 2)
    own = {0: torch.zeros(3), 1: torch.ones(3), 2: torch.full((3,), 9.0), 3: torch.zeros(3)}
    assert choose(pool, 2, labelled=[0], support=Support(features=own)).ids == (2, 1)


def test_exact_covers_at_least_as_well_as_greedy():
    pool = normal(40, 2, seed=5)
    known, radii = pool[:3], {}
    for method in ("greedy", "exact"):
        picks = choose(pool, 6, labelled=[0, 1, 2], options={"method": method})
        assert len(set(picks.ids)) == 6
        centres = torch.cat([known, pool[list(picks.ids)]])
        radii[method] = torch.cdist(pool, centres).amin(1).max()
    assert radii["exact"] < radii["greedy"]


def test_an_exact_search_that_was_cut_short_says_so(monkeypatch):
    monkeypatch.setattr("steepest.strategies.algorithms.k_centre_exact._NODES", 0)
    with pytest.warns(SettingWarning, match="a better choice may exist: choose from fewer"):
        picks = choose(normal(40, 2, seed=5), 6, options={"method": "exact"})
    assert len(set(picks.ids)) == 6


def test_exact_refuses_a_large_pool_before_the_model_runs():
    class Never(Flat):
        def forward(self, x):
            if len(x) > 2:
                raise AssertionError
            return super().forward(x)

    with pytest.raises(InputError, match="at most 2000 points, not 2001"):
        choose(torch.zeros(2001, 2), 1, Never(), options={"method": "exact"})


def test_outliers_are_not_chosen():
    pool = torch.cat([normal(49, 2), torch.full((1, 2), 500.0)])
    assert choose(pool, 1, labelled=[0]).ids == (49,)
    assert 49 not in choose(pool, 48, labelled=[0], options={"outliers": 0.03}).ids


def test_maps_and_volumes_have_features_too():
    for conv, shape in ((nn.Conv2d, (6, 6)), (nn.Conv3d, (4, 4, 4))):
        model = nn.Sequential(conv(1, 4, 3, padding=1), nn.ReLU(), conv(4, 3, 1))
        picks = choose(normal(9, 1, *shape), 4, model, labelled=[0])
        assert len(set(picks.ids)) == 4


def test_features_that_are_not_finite_name_the_sample():
    class Broken(Flat):
        def forward(self, x):
            return super().forward(torch.where(x > 3, torch.nan, x))

    pool = torch.zeros(4, 2)
    pool[2] = 5
    with pytest.raises(NonFiniteError, match="'c'"):
        choose(pool, 2, Broken(), ids=["a", "b", "c", "d"])


def test_options_are_checked():
    with pytest.raises(UnknownNameError, match="did you mean 'exact'"):
        create("core-set", {"method": "exat"})
    with pytest.raises(InputError, match="below 1"):
        create("core-set", {"outliers": 1.5})
