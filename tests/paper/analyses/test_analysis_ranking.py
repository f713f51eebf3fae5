"""Overlaps and chance levels."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from steepest.core.seeds import keyed_uniform
from steepest.errors import InputError, NonFiniteError
from steepest.paper.analyses import chance_overlap
from steepest.paper.analyses.ranking import Chance, highest


@pytest.mark.parametrize(("k", "candidates"), [(3, 10), (9, 10), (90, 900), (2500, 25000)])
def test_the_chance_level_is_that_of_the_hypergeometric_distribution(k, candidates):
    level = chance_overlap(k, candidates)
    law = stats.hypergeom(candidates, k, k)
    assert level.mean == pytest.approx(law.mean())
    assert level.sd == pytest.approx(law.std(), abs=1e-12)


@pytest.mark.parametrize("count", [1, 3])
def test_nothing_is_left_to_chance_where_everything_is_chosen(count):
    assert chance_overlap(count, count) == Chance(mean=count, sd=0.0)


def test_the_paper_s_numbers_have_a_chance_level_of_250():
    level = chance_overlap(2500, 25000)
    assert (level.mean, round(level.sd, 1)) == (250.0, 14.2)


@pytest.mark.parametrize(("k", "candidates"), [(0, 5), (6, 5)])
def test_a_choice_that_cannot_be_made_is_refused(k, candidates):
    with pytest.raises(InputError, match="cannot be chosen"):
        chance_overlap(k, candidates)


def test_the_highest_do_not_depend_on_the_order_of_the_pool():
    ids = list(range(40))
    values = np.floor(10 * keyed_uniform(0, "values", ids)[:, 0])
    turned = ids[::-1]
    assert highest(values, ids, 7, 1) == highest(values[::-1].copy(), turned, 7, 1)


def test_ties_are_broken_by_the_seed():
    ids = list(range(50))
    found = {highest(np.zeros(50), ids, 5, seed) for seed in range(4)}
    assert len(found) > 1


def test_the_highest_of_not_finite_values_are_refused():
    with pytest.raises(NonFiniteError, match="NaN or infinite"):
        highest(np.array([1.0, np.nan]), [0, 1], 1, 0)
    with pytest.raises(InputError, match="one for each"):
        highest(np.zeros(3), [0, 1], 1, 0)
