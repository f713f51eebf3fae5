"""The default strategy: which part of a choice is made how, and what is said of it."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import steepest
from steepest.errors import InputError
from steepest.strategies import create


def normal(*shape, seed=0):
    draws = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=draws, dtype=torch.float64)


@pytest.fixture
def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3)).double()


def choose(model, pool, k, name="steepest", **more):
    return steepest.select(model, pool, k, name, progress=False, **more)


def test_few_labels_are_herding(model):
    pool = normal(60, 4)
    for labelled in ((), range(5)):
        picks = choose(model, pool, 8, labelled=labelled)
        assert picks.ids == choose(model, pool, 8, "gradnorm-herding", labelled=labelled).ids
    assert choose(model, pool, 8).verdict.sentence.startswith(
        "No labelled samples were named: typical samples weighted by gradient norm."
    )
    assert "Few labels (1.7 a class" in picks.verdict.sentence


def test_many_labels_are_design(model):
    pool, labelled = normal(80, 4), range(30)
    picks = choose(model, pool, 8, labelled=labelled, options={"few": 2.0, "many": 10.0})
    assert picks.ids == choose(model, pool, 8, "gradnorm-design", labelled=labelled).ids
    assert picks.verdict.sentence.startswith("Many labels (10 a class")
    assert "samples that lower the expected loss" in picks.verdict.sentence


def test_between_them_one_follows_on_the_other(model):
    """The second part counts the first as labelled, over the same candidates."""
    pool, labelled = normal(80, 4), list(range(24))
    options = {"few": 4.0, "many": 16.0}
    strategy = create("steepest", options)
    assert strategy.share_of_design(24, 3) == pytest.approx(0.5)
    picks = choose(model, pool, 12, labelled=labelled, options=options)
    herding = choose(
        model, pool, 6, "gradnorm-herding", labelled=labelled, options={"reach": 30 / 36}
    )
    assert picks.ids[:6] == herding.ids
    assert len(set(picks.ids)) == 12
    assert "6 picks are typical samples" in picks.verdict.sentence
    assert "6 are samples that lower the expected loss" in picks.verdict.sentence
    # Those of a design that knows nothing of the first part would be others.
    alone = choose(model, pool, 12, "gradnorm-design", labelled=labelled)
    assert picks.ids[6:] != alone.ids[:6]


@pytest.mark.parametrize("labels", range(0, 2000, 7))
def test_the_change_has_no_jump(labels):
    strategy = create("steepest")
    now, then = (strategy.share_of_design(count, 10) for count in (labels, labels + 7))
    assert 0 <= now <= then <= 1
    assert then - now < 0.05


def test_a_model_without_a_last_layer_is_chosen_for_by_its_predictions():
    class Distances(nn.Module):
        def forward(self, x):
            return -torch.cdist(x, torch.eye(4, dtype=x.dtype))

    picks = choose(Distances(), normal(40, 4), 6, labelled=range(10))
    assert len(set(picks.ids)) == 6


@pytest.mark.parametrize("options", [{"few": 0.0}, {"few": 20.0, "many": 20.0}])
def test_limits_must_be_in_order(options):
    with pytest.raises(InputError, match="few"):
        create("steepest", options)
