"""What is said of the classes that picks are predicted as."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import hypergeom

from steepest.errors import InputError
from steepest.strategies.algorithms.verdict import at_least, judge


def predictions(*counts: int) -> np.ndarray:
    """So many candidates of each class, in the order of the classes."""
    return np.repeat(np.arange(len(counts)), counts)


def picks_of(predicted: np.ndarray, *counts: int) -> np.ndarray:
    """The first so many candidates of each class."""
    rows = [np.flatnonzero(predicted == c)[:count] for c, count in enumerate(counts)]
    return np.concatenate(rows)


def test_a_class_that_takes_too_many_picks_is_named_with_a_remedy():
    predicted = predictions(120, 480, 400)
    picks = picks_of(predicted, 42, 30, 28)
    found = judge(predicted, picks, 3, names=("boat", "car", "tree"))
    assert found.lopsided
    assert (
        str(found)
        == found.sentence
        == (
            "42 of 100 picks are predicted as 'boat' (12 expected at random): try a strategy with "
            "coverage such as 'badge' or 'cluster-margin'."
        )
    )
    told = [(c.name, c.label, c.picks, c.expected) for c in found.spread]
    assert told == [("boat", 0, 42, 12.0), ("car", 1, 30, 48.0), ("tree", 2, 28, 40.0)]


def test_picks_chosen_together_are_judged_without_that_remedy():
    predicted = predictions(120, 880)
    found = judge(predicted, picks_of(predicted, 42, 58), 2, by_score=False)
    assert (found.lopsided, found.sentence) == (
        False,
        "58 of 100 picks are predicted as class 1, the most of any class (88 expected at random).",
    )
    found = judge(predicted, picks_of(predicted, 60, 40), 2, by_score=False)
    assert found.sentence == "60 of 100 picks are predicted as class 0 (12 expected at random)."


def test_the_strategy_speaks_first():
    predicted = predictions(10, 10)
    said = "The model is weak."
    assert judge(None, np.arange(3), 0) is None
    assert judge(None, np.arange(3), 0, said=said).sentence == said
    found = judge(predicted, np.arange(1), 2, said=said)
    assert found.sentence == "The model is weak. The pick is predicted as class 0."


@pytest.mark.parametrize(
    ("pool", "chosen", "lopsided"),
    [
        ((100, 900), (20, 0), True),
        ((800, 200), (20, 0), False),
        ((500, 500), (40, 10), True),
        ((500, 500), (4, 1), False),
        ((500, 500), (28, 22), False),
        ((1000, *[1] * 999), (50, *[1] * 50), False),
        ((1, *[10] * 99), (1, 1, 1), False),
        ((10, *[10] * 99), (10, *[1] * 40), True),
        ((10, *[10] * 99), (8, *[1] * 42), False),
    ],
)
def test_a_class_is_there_too_often_if_chance_hardly_does_that_and_it_matters(
    pool, chosen, lopsided
):
    predicted = predictions(*pool)
    assert judge(predicted, picks_of(predicted, *chosen), len(pool)).lopsided is lopsided


def test_the_odds_are_those_of_draws_that_are_not_put_back():
    rng = np.random.default_rng(0)
    for _ in range(200):
        total = int(rng.integers(1, 400))
        members, drawn = (int(n) for n in rng.integers(0, total + 1, 2))
        count = int(rng.integers(0, drawn + 1))
        expected = hypergeom.sf(count - 1, total, members, drawn)
        assert at_least(count, drawn, members, total) == pytest.approx(
            expected, rel=1e-8, abs=1e-12
        )


def test_names_are_one_for_each_class():
    predicted = predictions(10, 10)
    with pytest.raises(InputError, match="3 class names for a model with 2 outputs: name each"):
        judge(predicted, np.arange(3), 2, names=("a", "b", "c"))


def test_classes_that_nobody_expects_are_said_so():
    predicted = predictions(1, 9999)
    found = judge(predicted, np.array([0, 1]), 2)
    assert found.sentence == (
        "1 of 2 picks is predicted as class 0, the most of any class (fewer than 0.1 expected at "
        "random)."
    )
