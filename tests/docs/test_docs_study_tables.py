"""The tables of the study hold strategies against each other over the seeds that both have."""

from __future__ import annotations

import numpy as np
import pytest
from doc_pages import ROOT
from findings_records import difference, read
from study_tables import TABLES, study

from steepest.experiment.comparison import Comparison, Run

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


def test_what_the_page_says_of_choices_in_common_is_what_the_records_say():
    warm, cold = study(), read("cifar10-study/cold")
    page = " ".join((ROOT / "docs/study.md").read_text(encoding="utf-8").split())

    def chosen(comparison, name, seed, cycles=None):
        entries = comparison.runs[name, seed].entries[:cycles]
        return {id_ for entry in entries for id_ in entry["selected"]}

    def percent(pairs):
        return round(100 * np.mean([len(one & other) / len(one) for one, other in pairs]))

    ours, margin = "entropy-gradnorm", "margin"
    first = percent([(chosen(warm, ours, s, 1), chosen(warm, margin, s, 1)) for s in (1, 2)])
    assert f"and only {first} % with `margin`" in page
    last = percent([(chosen(warm, ours, s), chosen(warm, margin, s)) for s in (0, 1, 2)])
    assert f"it has 77 and {last} % in common with them" in page
    everywhere = [
        len(set.intersection(*(chosen(warm, name, seed) for seed in (0, 1, 2))))
        for name in ("entropy", "random")
    ]
    assert "{:,} are chosen in all three seeds, where `random` has {:,}".format(*everywhere) in page
    starts = [
        percent([(chosen(warm, name, 0), chosen(cold, name, 0))]) for name in ("entropy", ours)
    ]
    assert "have {} % of their choice in common for `entropy` and {} %".format(*starts) in page
