"""Noise on scores: draws without replacement with the chances that were promised."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from scipy import stats

from steepest.errors import InputError, UnknownNameError
from steepest.strategies.algorithms import top_k
from steepest.strategies.algorithms.stochastic import keyed_gumbel, perturb

SCORES = np.array([0.2, 1.0, 0.5, 2.0])
IDS = range(4)


def first_of(kind, beta, total=6000, values=SCORES):
    best = (perturb(values, IDS, kind, beta, seed).argmax() for seed in range(total))
    found = Counter(int(i) for i in best)
    return np.array([found[i] for i in IDS])


@pytest.mark.parametrize("beta", [0.5, 1.0, 3.0])
def test_softmax_draws_by_the_softmax(beta):
    chances = np.exp(beta * SCORES) / np.exp(beta * SCORES).sum()
    assert stats.chisquare(first_of("softmax", beta), chances * 6000).pvalue > 1e-3


@pytest.mark.parametrize("beta", [0.5, 1.0, 2.0])
def test_power_draws_by_the_power(beta):
    chances = SCORES**beta / (SCORES**beta).sum()
    assert stats.chisquare(first_of("power", beta), chances * 6000).pvalue > 1e-3


def test_softrank_draws_by_the_rank_whatever_the_scores():
    weights = 1 / np.array([4.0, 2.0, 3.0, 1.0])
    found = first_of("softrank", 1.0)
    assert stats.chisquare(found, weights / weights.sum() * 6000).pvalue > 1e-3
    assert np.array_equal(found, first_of("softrank", 1.0, values=SCORES**3 - 5))


@pytest.mark.parametrize("kind", ["power", "softmax", "softrank"])
def test_a_large_beta_is_the_plain_order_and_a_small_one_is_even(kind):
    sharp = perturb(SCORES, IDS, kind, 1e8, 0)
    assert top_k(sharp, IDS, 4, 0).tolist() == [3, 1, 2, 0]
    assert stats.chisquare(first_of(kind, 1e-6)).pvalue > 1e-3


def test_scores_of_zero_or_less_are_finite_and_last_for_power():
    values = np.array([0.0, 1e-30, -1e-17, 5.0])
    for seed in range(50):
        found = perturb(values, IDS, "power", 1.0, seed)
        assert np.isfinite(found).all()
        assert set(found.argsort()[:2].tolist()) == {0, 2}


def test_all_zero_is_an_even_draw():
    assert stats.chisquare(first_of("power", 1.0, values=np.zeros(4))).pvalue > 1e-3


def test_negative_scores_have_no_power():
    with pytest.raises(InputError, match="use kind='softrank'"):
        perturb(-SCORES, IDS, "power", 1.0, 0)


def test_an_unknown_kind_names_the_nearest():
    with pytest.raises(UnknownNameError, match="did you mean 'softmax'"):
        perturb(SCORES, IDS, "softmx", 1.0, 0)


def test_noise_belongs_to_the_id():
    ids = [f"{i}.png" for i in range(30)]
    order = np.random.default_rng(0).permutation(30)
    shuffled = keyed_gumbel(3, [ids[i] for i in order])
    assert np.array_equal(shuffled, keyed_gumbel(3, ids)[order])


def test_noise_is_gumbel_distributed():
    assert stats.kstest(keyed_gumbel(1, range(4000)), stats.gumbel_r.cdf).pvalue > 1e-3
