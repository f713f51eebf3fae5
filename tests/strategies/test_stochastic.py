"""Stochastic batches on top of any score."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn

import steepest
from steepest.errors import InputError, UnknownNameError
from steepest.models import build
from steepest.selecting.options import SelectionOptions
from steepest.selecting.pool_view import open_view
from steepest.selecting.samples import as_samples
from steepest.strategies import Needs, Scorer, create, names, strategy
from steepest.strategies.algorithms.stochastic import perturb
from steepest.strategies.base import STRATEGIES

pytestmark = pytest.mark.filterwarnings("ignore::steepest.errors.RegimeWarning")


@pytest.fixture
def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3)).double()


@pytest.fixture
def pool():
    generator = torch.Generator().manual_seed(1)
    return torch.randn(12, 4, generator=generator, dtype=torch.float64)


def score(model, pool, seed=0, **options):
    return steepest.score(
        model, pool, "stochastic", options=options, seed=seed, progress=False
    ).values


def choose(model, pool, k, seed=0, **options):
    return steepest.select(
        model, pool, k, "stochastic", options=options, seed=seed, progress=False
    ).ids


@pytest.mark.parametrize("kind", ["power", "softmax", "softrank"])
@pytest.mark.parametrize("of", ["entropy", "entropy-gradnorm"])
def test_scores_are_the_other_strategys_with_noise(model, pool, kind, of):
    plain = steepest.score(model, pool, of, seed=3, progress=False).values
    found = score(model, pool, seed=3, of=of, kind=kind, beta=2.0)
    np.testing.assert_array_equal(found, perturb(plain, range(12), kind, 2.0, 3))


@pytest.mark.parametrize("kind", ["power", "softmax", "softrank"])
def test_a_large_beta_chooses_the_top_k(model, pool, kind):
    plain = steepest.select(model, pool, 5, "entropy", progress=False).ids
    assert choose(model, pool, 5, of="entropy", kind=kind, beta=1e9) == plain


def test_a_small_beta_chooses_evenly(model, pool):
    seen = Counter()
    for seed in range(400):
        seen.update(choose(model, pool[:6], 2, seed, of="entropy", beta=1e-6))
    assert stats.chisquare([seen[i] for i in range(6)]).pvalue > 1e-3


def test_one_sample_is_chosen_with_the_chances_of_the_softmax(model, pool):
    plain = steepest.score(model, pool[:4], "entropy", progress=False).values
    chances = np.exp(4 * plain) / np.exp(4 * plain).sum()
    seen = Counter(
        choose(model, pool[:4], 1, seed, of="entropy", kind="softmax", beta=4.0)[0]
        for seed in range(600)
    )
    assert stats.chisquare([seen[i] for i in range(4)], chances * 600).pvalue > 1e-3


@pytest.mark.parametrize("kind", ["power", "softmax", "softrank"])
def test_order_and_batch_size_change_nothing(model, pool, kind):
    order = torch.randperm(12, generator=torch.Generator().manual_seed(2))
    options = {"kind": kind}
    straight = steepest.select(model, pool, 6, "stochastic", options=options, progress=False)
    shuffled = steepest.select(
        model,
        pool[order],
        6,
        "stochastic",
        options=options,
        ids=order.tolist(),
        batch_size=5,
        progress=False,
    )
    assert shuffled.ids == straight.ids


def test_options_reach_the_wrapped_strategy_and_rebuild_it(model, pool):
    made = create("stochastic", {"of": "fisher-gradnorm", "of_options": {"draws": 0}})
    assert made.scorer == create("fisher-gradnorm", {"draws": 0})
    assert create("stochastic", made.options()) == made
    assert steepest.select(model, pool, 2, made, progress=False).options == made.options()


def test_needs_are_those_of_the_wrapped_strategy():
    assert create("stochastic").needs == Needs.GRADIENTS
    assert create("stochastic", {"of": "entropy"}).needs == Needs.LOGITS
    assert create("stochastic", {"of": "random"}).needs == Needs.NOTHING
    assert create("stochastic").dense
    assert not create("stochastic", {"of": "egl"}).dense


def test_needs_cannot_be_set():
    made = create("stochastic")
    for name in ("needs", "dense"):
        with pytest.raises(AttributeError):
            object.__setattr__(made, name, None)


def test_no_gradient_is_measured_for_a_score_by_logits(model, pool, monkeypatch):
    def never(*args, **more):
        raise AssertionError

    monkeypatch.setattr("steepest.selecting.pool_view.Engine", never)
    assert len(choose(model, pool, 2, of="entropy")) == 2


def test_a_strategy_that_asks_no_model_works(model, pool):
    assert len(set(choose(model, pool, 12, of="random", kind="softmax"))) == 12


def test_what_the_wrapped_strategy_asks_for_is_passed_on(monkeypatch):
    @strategy("wants much")
    class Wanting(Scorer):
        dense = False
        members = 4

        def score(self, batch):
            return batch.logits[:, 0]

        def prepare(self, pool):
            return "prepared"

        def model_options(self):
            return {"dropout": "head"}

        def make_extra(self, model, images, seed):
            return "extra"

    try:
        made = create("stochastic", {"of": "wants much"})
        assert (made.members, made.dense) == (4, False)
        assert made.model_options() == {"dropout": "head"}
        assert made.prepare(None) == "prepared"
        assert made.make_extra(None, None, 0) == "extra"
    finally:
        del STRATEGIES._entries["wants much"]


@pytest.mark.parametrize("of", ["isal", "ll4al", "qbc", "sraal", "tod", "vaal"])
def test_strategies_that_train_first_can_be_looked_at_before_they_have(of):
    images, net = torch.randn(2, 1, 8, 8), build("small-cnn", 3, 1, seed=0)
    with open_view(net, as_samples(images), create(of), SelectionOptions(progress=False)) as view:
        create("stochastic", {"of": of, "kind": "softrank"}).check(view)
        flat = torch.zeros(2, 4)
    with (
        open_view(nn.Linear(4, 3), as_samples(flat), create("random"), SelectionOptions()) as view,
        pytest.raises(InputError, match="use kind='softrank'"),
    ):
        create("stochastic", {"of": "margin"}).check(view)


def test_negative_scores_have_no_power_but_ranks(model, pool):
    with pytest.raises(InputError, match="use kind='softrank'"):
        choose(model, pool, 2, of="margin")
    assert len(choose(model, pool, 2, of="margin", kind="softrank")) == 2


@pytest.mark.parametrize(
    "options",
    [{"beta": 0.0}, {"beta": float("nan")}, {"of": "stochastic"}, {"of": "core-set"}],
)
def test_options_that_make_no_sense_are_refused(options):
    with pytest.raises(InputError, match="stochastic"):
        create("stochastic", options)


def test_unknown_names_say_the_nearest():
    assert "entropy" in names()
    with pytest.raises(UnknownNameError, match="did you mean 'entropy'"):
        create("stochastic", {"of": "entrpy"})
    with pytest.raises(UnknownNameError, match="did you mean 'power'"):
        create("stochastic", {"kind": "powr"})
    with pytest.raises(UnknownNameError, match="unknown key"):
        create("stochastic", {"of_options": {"nrom": "l2"}})
