"""Seeds that agree by chance: metrics of a small test set move in steps."""

from __future__ import annotations

import re

import pytest
from fake_runs import make_entry

from steepest.experiment.comparison import Comparison, Run
from steepest.experiment.report import results
from steepest.experiment.statistics import Summary, summarise

CURVES = {
    "random": ([0.50, 0.70, 0.93], [0.60, 0.75, 0.93]),
    "margin": ([0.50, 0.72, 0.93], [0.60, 0.79, 0.93]),
}
SVG = b"<svg></svg>"


def make() -> Comparison:
    runs = {}
    for name, by_seed in CURVES.items():
        for seed, values in enumerate(by_seed):
            entries = [make_entry(name, seed, cycle, 3) for cycle in range(3)]
            for entry, value in zip(entries, values, strict=True):
                entry["metrics"] = {"accuracy": value}
            runs[name, seed] = Run(name, seed, tuple(entries))
    return Comparison("made", tuple(CURVES), (0, 1), runs, config={})


@pytest.fixture
def summary() -> Summary:
    return summarise(make())


def cells(section: str) -> list[list[str]]:
    rows = re.findall(r"<tr>(.*?)</tr>", section, flags=re.DOTALL)
    found = [re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row, flags=re.DOTALL) for row in rows]
    return [[re.sub(r"<[^>]*>", "", cell).strip() for cell in row] for row in found]


def test_a_budget_at_which_all_seeds_agree_has_no_interval(summary):
    section = results.curves_section(make(), summary, SVG)
    shown = cells(section)
    assert shown[-1][1:] == ["0.930", "0.930"]
    assert all(" to " in cell for row in shown[1:-1] for cell in row[1:])
    assert "(none where all seeds have the same value)" in section


def test_a_difference_of_zero_in_all_seeds_has_no_interval(summary):
    section = results.tests_section(summary, SVG)
    assert section is not None
    final = cells(section)[-1]
    assert final[:4] == ["margin", "final accuracy", "+0.000", "–"]
    assert "margin, final accuracy: no seed differs at all." in section
