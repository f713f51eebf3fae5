"""DropQuery against its description, sample by sample."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import steepest
from steepest.core.seeds import keyed_uniform
from steepest.errors import InputError, ModelError
from steepest.strategies import drop_query
from steepest.strategies.algorithms.k_means import k_means


def normal(*shape, seed=0):
    draws = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=draws, dtype=torch.float64)


@pytest.fixture
def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3)).double()


def choose(model, pool, k, **more):
    return steepest.select(model, pool, k, "drop-query", progress=False, **more)


def shares_changed(model, pool, draws, rate, seed):
    """The share of draws that change the class of each sample, one at a time."""
    found = []
    for at, x in enumerate(pool):
        h = model[1](model[0](x))
        class_ = int(model[2](h).argmax())
        kept = keyed_uniform(seed, "drop-query", [at], draws * 16).reshape(draws, 16) >= rate
        dropped = [h * torch.from_numpy(row) / (1 - rate) for row in kept]
        found.append(np.mean([int(model[2](row).argmax()) != class_ for row in dropped]))
    return np.array(found)


@pytest.mark.parametrize(("draws", "rate"), [(3, 0.75), (4, 0.5)])
def test_one_sample_nearest_to_the_centre_of_each_cluster(model, draws, rate, monkeypatch):
    made = []

    def watched(rows, *args, **more):
        made.append((rows, k_means(rows, *args, **more)))
        return made[-1][1]

    monkeypatch.setattr(drop_query, "k_means", watched)
    pool = normal(120, 4)
    picks = choose(model, pool, 6, seed=2, options={"draws": draws, "rate": rate})
    shares = shares_changed(model, pool, draws, rate, 2)
    np.testing.assert_allclose(picks.scores, shares[list(picks.ids)])
    unsure = np.flatnonzero(shares > 0.5)
    assert 6 < len(unsure) < 120
    assert set(picks.ids) <= set(unsure)
    features = model[1](model[0](pool)).detach()
    ((rows, clusters),) = made
    ids = [int((features - row).norm(dim=1).argmin()) for row in rows]
    assert sorted(ids) == unsure.tolist()
    expected = set()
    for cluster, centre in enumerate(clusters.centres):
        members = [i for i, label in zip(ids, clusters.labels, strict=True) if label == cluster]
        expected.add(min(members, key=lambda i: float((features[i] - centre).norm())))
    assert set(picks.ids) == expected


def test_few_in_doubt_are_completed_by_the_next_highest_shares(model):
    pool = normal(30, 4, seed=3)
    shares = shares_changed(model, pool, 3, 0.75, 0)
    k = int((shares > 0.5).sum()) + 4
    picks = choose(model, pool, k)
    assert sorted(shares[list(picks.ids)]) == sorted(np.sort(shares)[-k:])


@pytest.mark.parametrize("options", [{"draws": 0}, {"rate": 0.0}, {"rate": 1.0}])
def test_options_out_of_range_are_named(model, options):
    with pytest.raises(InputError, match=f"drop-query: {next(iter(options))}"):
        choose(model, normal(9, 4), 2, options=options)


def test_a_model_without_a_linear_layer_at_its_end_is_refused():
    model = nn.Sequential(nn.Linear(4, 3), nn.Tanh())
    with pytest.raises(ModelError, match="straight from"):
        choose(model, normal(9, 4).float(), 2)
