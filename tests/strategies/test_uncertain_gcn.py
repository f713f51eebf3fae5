"""UncertainGCN: what the graph network doubts."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import steepest
from steepest.core.progress import SilentProgress
from steepest.core.seeds import keyed_uniform
from steepest.errors import InputError
from steepest.selecting.options import SelectionOptions
from steepest.selecting.pool_view import open_view
from steepest.selecting.samples import as_samples
from steepest.strategies import Support, create
from steepest.strategies.algorithms.graph_network import Fitting, fit_graph_network

LABELLED = tuple(range(0, 40, 4))


@pytest.fixture
def model():
    torch.manual_seed(0)
    return nn.Linear(5, 3).double()  # the features are the samples themselves


@pytest.fixture
def pool():
    generator = torch.Generator().manual_seed(1)
    return torch.randn(40, 5, generator=generator, dtype=torch.float64).abs()


def choose(model, pool, k, *, labelled=LABELLED, support=None, seed=0, **options):
    return steepest.select(
        model, pool, k, "uncertain-gcn", options={"epochs": 10} | options, labelled=labelled,
        support=support, seed=seed, progress=False,
    )  # fmt: skip


def shuffled(ids, seed=0):
    return [ids[i] for i in np.argsort(keyed_uniform(seed, "order of choosing", ids)[:, 0])]


@pytest.mark.parametrize("margin", [0.1, 0.5])
def test_the_scores_are_distances_to_the_margin(model, pool, margin):
    free = shuffled([i for i in range(40) if i not in LABELLED])
    order = [*free, *shuffled(list(LABELLED))]
    how = Fitting(epochs=10)
    _, logits = fit_graph_network(pool[order], len(LABELLED), 0, fitting=how)
    values = -(logits[: len(free)].sigmoid() - margin).abs()
    best = values.argsort(descending=True, stable=True)[:8]
    picks = choose(model, pool, 8, margin=margin)
    assert picks.ids == tuple(free[i] for i in best)
    np.testing.assert_allclose(picks.scores, values[best], rtol=1e-9)


def test_how_many_are_labelled_is_counted_and_not_assumed(model, pool):
    few, many = (choose(model, pool, 5, labelled=range(n)) for n in (2, 30))
    assert few.scores != many.scores
    assert min(few.ids) >= 2
    assert min(many.ids) >= 30


def test_the_seed_decides_the_network(model, pool):
    one, same, other = (choose(model, pool, 8, seed=seed) for seed in (0, 0, 1))
    assert one.scores == same.scores != other.scores


def test_labelled_samples_may_be_a_pool_of_their_own(model, pool):
    support = Support(labelled=pool[:10])
    picks = choose(model, pool[10:], 5, labelled=None, support=support)
    assert len(set(picks.ids)) == 5


def test_without_labelled_samples_it_says_what_to_do(model, pool):
    with pytest.raises(InputError, match="none is labelled: name some by --labelled FILE"):
        choose(model, pool, 3, labelled=None)


def test_features_of_both_signs_have_finite_scores(model, pool):
    support = Support(features=dict(enumerate(pool - pool.mean(0))))
    assert np.isfinite(choose(model, pool, 30, support=support, epochs=200).scores).all()


def test_training_is_shown_and_counts_as_preparation(model, pool):
    shown = []

    class Seen(SilentProgress):
        def task(self, description, total):
            shown.append((description, total))
            return super().task(description, total)

    strategy = create("uncertain-gcn", {"epochs": 3})
    how = SelectionOptions(labelled=LABELLED, progress=Seen())
    with open_view(model, as_samples(pool, None), strategy, how) as view:
        view.prepared = strategy.prepare(view)
        assert ("training the graph network", 3) in shown
        shown.clear()
        strategy.choose(view, 4)
    assert shown == []


@pytest.mark.parametrize(
    "options",
    [
        {"margin": 2.0},
        {"hidden": 0},
        {"epochs": -1},
        {"dropout": 1.0},
        {"rate": 0.0},
        {"balance": -1.0},
        {"weight_decay": -1.0},
    ],
)
def test_impossible_options_are_refused(options):
    with pytest.raises(InputError, match=f"uncertain-gcn: {next(iter(options))} must be"):
        create("uncertain-gcn", options)


@pytest.mark.parametrize(
    ("option", "least"),
    [("margin", 0), ("hidden", 1), ("epochs", 0), ("dropout", 0), ("balance", 0)],
)
def test_the_least_of_an_option_is_allowed(option, least):
    assert create("uncertain-gcn", {option: least}).options()[option] == least


@pytest.mark.parametrize("name", ["core-gcn", "uncertain-gcn"])
@pytest.mark.parametrize("seed", [1, 2, 6])
def test_the_batch_size_does_not_reach_the_training(name, seed):
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 3))
    rows = torch.randn(200, 5)
    how = {"strategy": name, "labelled": [0, 1, 2, 3], "progress": False}
    found = {steepest.select(model, rows, 20, batch_size=b, **how).ids for b in (1, 7, 64, 200)}
    assert len(found) == 1
