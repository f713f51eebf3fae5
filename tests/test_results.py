"""The tables in ``results/README.md`` are what the records beside it say."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from steepest.core.tables import from_table
from steepest.experiment.config import Config
from steepest.experiment.report import read_comparison

RESULTS = Path(__file__).resolve().parents[1] / "results"
TABLES = re.findall(
    r"<!-- table: (\S+) -->\n((?:\|.*\n)+)", (RESULTS / "README.md").read_text(encoding="utf-8")
)


@pytest.mark.parametrize(("folder", "table"), TABLES)
def test_tables_equal_the_records(folder, table):
    comparison = read_comparison(RESULTS / f"{folder}.tar.xz")
    assert all(run.complete or not run.entries for run in comparison.runs.values())
    assert from_table(Config, comparison.config)
    head, _, *rows = [line.strip("| ").split(" | ") for line in table.splitlines()]
    numbered = head[1] == "n"  # Where strategies have different numbers of seeds.
    written = {row[0]: [float(cell) for cell in row[1 + numbered :]] for row in rows}
    assert set(written) == set(comparison.strategies)
    for row in rows:
        found = [comparison.runs[row[0], seed] for seed in comparison.seeds]
        runs = [run for run in found if run.complete]
        assert not numbered or int(row[1]) == len(runs)
        assert numbered or len(runs) == len(found)
        budgets = [int(cell) for cell in head[1 + numbered :]]
        assert all(budgets == list(run.budgets) for run in runs)
        mean = np.mean([run.curve(comparison.metric) for run in runs], axis=0)
        np.testing.assert_allclose(written[row[0]], 100 * mean, atol=0.005001)


def test_every_archive_has_a_table():
    archives = RESULTS.rglob("*.tar.xz")
    found = {path.relative_to(RESULTS).as_posix().removesuffix(".tar.xz") for path in archives}
    assert found == {name for name, _ in TABLES}
