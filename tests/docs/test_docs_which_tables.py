"""The tables of which-strategy.md are what the records beside the plan say."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from which_tables import OURS, TABLES, contrasts, settings


def areas_of(comparison, name):
    """By the trapezoids of the curve, written out."""
    found = []
    for seed in comparison.complete_seeds(name):
        entries = comparison.runs[name, seed].entries
        x = np.array([entry["labelled"] for entry in entries], dtype=float)
        y = np.array([100 * entry["metrics"]["accuracy"] for entry in entries])
        found.append(((y[1:] + y[:-1]) / 2 * np.diff(x)).sum() / (x[-1] - x[0]))
    return np.array(found)


def test_differences_are_paired_by_seed_and_corrected_over_all_pairs():
    setting, comparison = next(iter(settings().items()))
    ours, other = areas_of(comparison, OURS), areas_of(comparison, "margin")
    test, p = contrasts(setting)[OURS, "margin"]
    assert test.mean_difference == pytest.approx((ours - other).mean())
    plain = stats.ttest_rel(ours, other).pvalue
    pairs = len(comparison.compared) * (len(comparison.compared) - 1) / 2
    assert plain < p <= min(1, plain * pairs) * (1 + 1e-9)
    back, same = contrasts(setting)["margin", OURS]
    assert (back.mean_difference, same) == (pytest.approx(-test.mean_difference), p)


def test_every_setting_has_a_row_in_the_plan_s_order():
    lines = TABLES["which overview"]().splitlines()[2:]
    assert len(lines) == len(settings())
    for line, comparison in zip(lines, settings().values(), strict=True):
        cells = line.strip("| ").split(" | ")
        value = float(cells[3].strip("*"))
        seeds = int(cells[2])
        if seeds == len(comparison.complete_seeds(OURS)):
            assert value == pytest.approx(areas_of(comparison, OURS).mean(), abs=0.00501)
