from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from steepest.errors import InputError
from steepest.experiment.curves import (
    aubc,
    labels_saved,
    labels_to_match,
    labels_to_reach,
    mean_and_band,
)

BUDGETS = [40, 80, 120, 160]


def test_band_is_the_t_interval_of_scipy():
    curves = np.array([[0.5, 0.7, 0.8], [0.6, 0.65, 0.9], [0.55, 0.72, 0.81], [0.5, 0.7, 0.83]])
    band = mean_and_band(curves, confidence=0.9)
    low, high = stats.t.interval(0.9, 3, loc=curves.mean(0), scale=stats.sem(curves, axis=0))
    np.testing.assert_allclose(band.mean, curves.mean(0))
    np.testing.assert_allclose(band.low, low)
    np.testing.assert_allclose(band.high, high)
    assert band.n == 4


def test_one_curve_has_a_band_without_width_and_says_so():
    band = mean_and_band([[0.5, 0.7]])
    assert band.n == 1
    assert band.low.tolist() == band.high.tolist() == band.mean.tolist() == [0.5, 0.7]


@pytest.mark.parametrize("confidence", [0.0, 1.0, 95])
def test_confidence_outside_of_zero_and_one_is_refused(confidence):
    with pytest.raises(InputError, match="between 0 and 1"):
        mean_and_band([[0.5], [0.6]], confidence)


def test_nan_and_wrong_shapes_are_refused():
    with pytest.raises(InputError, match="NaN"):
        mean_and_band([[0.5, np.nan]])
    with pytest.raises(InputError, match="shape"):
        mean_and_band([0.5, 0.6])
    with pytest.raises(InputError, match="3 budgets for 2 values"):
        aubc([1, 2, 3], [0.1, 0.2])
    with pytest.raises(InputError, match="do not increase"):
        aubc([1, 1], [0.1, 0.2])


@given(
    st.lists(st.integers(1, 10_000), min_size=1, max_size=8, unique=True).map(sorted),
    st.floats(0, 1),
)
def test_area_of_a_constant_curve_is_its_height(budgets, height):
    assert aubc(budgets, [height] * len(budgets)) == pytest.approx(height)


def test_area_weighs_segments_by_their_width():
    assert aubc([0, 10, 40], [0.0, 1.0, 1.0]) == pytest.approx((5 + 30) / 40)


def test_area_does_not_depend_on_the_unit_of_the_budget():
    values = [0.3, 0.6, 0.7, 0.9]
    scaled = [b * 25 + 7 for b in BUDGETS]
    assert aubc(BUDGETS, values) == pytest.approx(aubc(scaled, values))


def test_labels_to_reach_lie_between_two_budgets():
    assert labels_to_reach(BUDGETS, [0.5, 0.7, 0.8, 0.9], 0.75) == pytest.approx(100)


def test_labels_to_reach_are_the_first_budget_for_an_easy_target():
    assert labels_to_reach(BUDGETS, [0.5, 0.7, 0.8, 0.9], 0.4) == 40


def test_labels_to_reach_are_none_for_a_target_never_met():
    assert labels_to_reach(BUDGETS, [0.5, 0.7, 0.8, 0.9], 0.91) is None


def test_a_target_once_reached_stays_reached():
    # The dip to 0.4 must not hide that 0.7 was there at 80 labels.
    assert labels_to_reach(BUDGETS, [0.5, 0.7, 0.4, 0.9], 0.7) == pytest.approx(80)
    # Beyond the dip the line starts from the running maximum 0.7 at 120, not from 0.4.
    assert labels_to_reach(BUDGETS, [0.5, 0.7, 0.4, 0.9], 0.8) == pytest.approx(140)


@given(st.lists(st.floats(0, 1), min_size=4, max_size=4), st.floats(0, 1), st.floats(0, 1))
def test_a_harder_target_never_takes_fewer_labels(values, one, other):
    easy, hard = sorted((one, other))
    needed = labels_to_reach(BUDGETS, values, hard)
    if needed is not None:
        first = labels_to_reach(BUDGETS, values, easy)
        assert first is not None
        assert first <= needed + 1e-9


def test_labels_saved_hold_each_seed_against_its_own_baseline():
    baseline = [[0.5, 0.6, 0.7, 0.8], [0.5, 0.6, 0.7, 0.9], [0.5, 0.6, 0.7, 0.95]]
    own = [[0.5, 0.8, 0.9, 0.9], [0.5, 0.8, 0.85, 0.95], [0.5, 0.6, 0.7, 0.8]]
    first, second, third = labels_saved(BUDGETS, own, baseline)
    assert first == pytest.approx(80)
    assert second == pytest.approx(20)
    assert third is None


def test_labels_are_saved_against_those_the_baseline_needs_itself():
    flat = [0.5, 0.7, 0.7, 0.7]  # It has its final value with 80 labels, not with 160.
    early, same, late, never = labels_saved(
        BUDGETS,
        [[0.5, 0.9, 0.9, 0.9], flat, [0.5, 0.5, 0.7, 0.9], [0.5, 0.5, 0.5, 0.6]],
        [flat] * 4,
    )
    assert early == pytest.approx(20)
    assert same == 0
    assert late == pytest.approx(-40)
    assert never is None


def test_a_baseline_that_fell_back_has_reached_its_final_value_on_the_way_up():
    baseline = [0.5, 0.9, 0.8, 0.7]
    assert labels_to_match(BUDGETS, [baseline], [baseline]) == pytest.approx((60,))
    assert labels_saved(BUDGETS, [[0.5, 0.6, 0.7, 0.7]], [baseline]) == pytest.approx((-60,))


@given(st.lists(st.floats(0, 1), min_size=4, max_size=4))
def test_no_curve_saves_labels_against_itself(values):
    assert labels_saved(BUDGETS, [values], [values]) == (0.0,)


def test_labels_saved_need_the_same_seeds():
    with pytest.raises(InputError, match="same seeds"):
        labels_saved(BUDGETS, [[0.1] * 4], [[0.1] * 4] * 2)
