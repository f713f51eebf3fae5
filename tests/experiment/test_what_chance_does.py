"""What docs/compare.md says that chance does, simulated: each number there is made here."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from scipy import stats

from steepest.experiment.statistics import paired_tests

Floats = npt.NDArray[np.float64]

DRAWS = 20_000


def t_test(differences: Floats) -> Floats:
    """Return p of the paired t-test along the last axis."""
    p: Floats = stats.ttest_1samp(differences, 0.0, axis=-1).pvalue
    return p


def normal(*shape: int) -> Floats:
    return np.random.default_rng(0).standard_normal(shape)


def test_the_test_simulated_here_is_that_of_reports():
    one = normal(5)
    assert t_test(one) == pytest.approx(paired_tests(one, np.zeros(5)).t_p)


@pytest.mark.parametrize(("seeds", "effect"), [(3, 3.3), (5, 1.7), (10, 1.0), (20, 0.66)])
def test_the_difference_that_is_found_four_times_of_five(seeds, effect):
    found = t_test(normal(DRAWS, seeds) + effect) <= 0.05
    assert found.mean() == pytest.approx(0.80, abs=0.025)


@pytest.mark.parametrize(("last", "cases"), [(10, 0.17), (20, 0.23)])
def test_looking_after_each_seed_finds_what_is_not_there(last, cases):
    differences = normal(DRAWS, last)
    looks = [t_test(differences[:, :seeds]) <= 0.05 for seeds in range(3, last + 1)]
    assert np.any(looks, axis=0).mean() == pytest.approx(cases, abs=0.01)


def test_the_best_of_twelve_that_equal_random_seems_above_it():
    values = normal(DRAWS, 13)  # Means over seeds, in their standard errors.
    gap = values[:, :12].max(axis=1) - values[:, 12]
    assert (gap / np.sqrt(2)).mean() == pytest.approx(1.2, abs=0.06)


@pytest.mark.parametrize("seeds", [3, 5, 10, 20])
def test_skewed_differences_fool_the_t_test(seeds):
    skewed = np.random.default_rng(0).standard_exponential((DRAWS, seeds)) - 1.0
    assert 0.08 <= round(float((t_test(skewed) <= 0.05).mean()), 2) <= 0.12


@pytest.mark.parametrize("seeds", [8, 10, 15])
def test_skewed_differences_fool_wilcoxon_s_test_too(seeds):
    skewed = np.random.default_rng(0).standard_exponential((DRAWS, seeds)) - 1.0
    found = stats.wilcoxon(skewed, axis=1, method="exact").pvalue <= 0.05
    assert 0.08 <= round(float(found.mean()), 2) <= 0.12


@pytest.mark.parametrize("alike", [0.0, 0.5, 0.7])
def test_a_band_seldom_covers_a_whole_curve(alike):
    generator = np.random.default_rng(0)
    common = np.sqrt(alike) * generator.standard_normal((DRAWS, 5, 1))
    curves = common + np.sqrt(1 - alike) * generator.standard_normal((DRAWS, 5, 7))
    covered = (stats.ttest_1samp(curves, 0.0, axis=1).pvalue > 0.05).all(axis=1).mean()
    assert 0.69 <= covered <= 0.81


@pytest.mark.parametrize("noise", [0.002, 0.01])
def test_a_strategy_like_random_seems_to_save_labels(noise):
    rising = np.linspace(0.80, 0.92, 7)
    draws = np.random.default_rng(0).standard_normal((2, DRAWS, 3, 7))
    baseline, other = rising + noise * draws
    reached = (other >= baseline[..., -1:]).any(axis=-1)
    assert 0.49 <= reached.mean() <= 0.59
    assert 1 / 8.5 <= reached.all(axis=1).mean() <= 1 / 5
