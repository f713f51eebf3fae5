"""The tables of the study hold strategies against each other over the seeds that both have."""

from __future__ import annotations

import numpy as np
import pytest
from findings_records import difference
from study_tables import TABLES, study

from steepest.experiment.outcomes import Comparison, Run

CONFIG = {"task": {"name": "classification"}}


def run(name, seed, *accuracies):
    entries = [
        {"labelled": 10 + 10 * i, "metrics": {"accuracy": value}, "selected": [i]}
        for i, value in enumerate(accuracies)
    ]
    entries[-1]["selected"] = []
    return Run(name, seed, tuple(entries))


@pytest.fixture
def ragged():
    runs = {
        ("random", 0): run("random", 0, 0.5, 0.5),
        ("random", 1): run("random", 1, 0.7, 0.7),
        ("few", 0): Run("few", 0),
        ("few", 1): run("few", 1, 0.7, 0.8),
    }
    return Comparison("x", ("random", "few"), (0, 1), runs, CONFIG)


def test_a_contrast_takes_the_seeds_that_both_have(ragged):
    found = difference(ragged, "few", "random")
    assert found.n == 1
    assert found.mean_difference == pytest.approx(5.0)
    assert difference(ragged, "random", "few").mean_difference == pytest.approx(-5.0)
    assert difference(ragged, "few", "few") is None


def test_the_tables_count_every_complete_run():
    comparison = study()
    counts = {f"`{name}`": len(comparison.complete_seeds(name)) for name in comparison.compared}
    for name in ("study accuracy", "study areas", "study gaps"):
        lines = [line.strip("| ").split(" | ") for line in TABLES[name]().splitlines()[2:]]
        told = {line[0].strip("*"): line[1] for line in lines if "`" in line[0]}
        assert {key: int(value) for key, value in told.items()} == counts


def test_the_last_budget_is_the_mean_of_the_records():
    comparison = study()
    (line,) = (row for row in TABLES["study accuracy"]().splitlines() if "**`random`**" in row)
    runs = comparison.runs_of("random", comparison.complete_seeds("random"))
    mean = np.mean([100 * r.entries[-1]["metrics"]["accuracy"] for r in runs])
    assert line.strip("| ").split(" | ")[-1].startswith(f"{mean:.2f}")
