from __future__ import annotations

import numpy as np
import pytest
from fake_runs import write_comparison

from steepest.experiment.report import read_comparison
from steepest.experiment.report.figures import draw_gains, gains_of, line_styles, render
from steepest.experiment.report.write import write_report
from steepest.experiment.statistics import summarise


@pytest.fixture
def whole(tmp_path):
    return read_comparison(write_comparison(tmp_path))


def _marks(axes):
    """Return the row and the middle of each mark, and its colour."""
    marks = [line for line in axes.lines if line.get_marker() not in {"None", "", None}]
    return [(*line.get_ydata(), *line.get_xdata(), line.get_color()) for line in marks]


def _intervals(axes):
    """Return the ends of each level line by its row."""
    pairs = [(list(line.get_xdata()), list(line.get_ydata())) for line in axes.lines]
    return {y[0]: tuple(x) for x, y in pairs if len(y) == 2 and y[0] == y[1]}


def test_a_row_has_the_mean_its_interval_and_a_ring_for_each_seed(whole):
    summary = summarise(whole)
    axes = draw_gains(whole, summary).axes[0]
    gains = gains_of(summary)
    styles = line_styles(whole.strategies)
    assert [gain.strategy for gain in gains] == ["entropy-gradnorm", "margin"]
    assert _marks(axes) == [
        (row, gain.test.mean_difference, styles[gain.strategy].colour)
        for row, gain in enumerate(gains)
    ]
    assert _intervals(axes) == {
        row: (gain.test.low, gain.test.high) for row, gain in enumerate(gains)
    }
    areas = {entry.strategy: np.array(entry.aubc.values) for entry in summary.strategies}
    for row, (gain, rings) in enumerate(zip(gains, axes.collections, strict=True)):
        x, y = np.asarray(rings.get_offsets()).T
        np.testing.assert_allclose(x, areas[gain.strategy] - areas["random"], rtol=0, atol=1e-15)
        assert set(y) == {row}


def test_seeds_are_paired_where_a_strategy_has_fewer(tmp_path):
    few = read_comparison(write_comparison(tmp_path, missing=[("margin", 0), ("margin", 1)]))
    summary = summarise(few)
    axes = draw_gains(few, summary).axes[0]
    entries = {entry.strategy: entry for entry in summary.strategies}
    random = dict(zip(entries["random"].seeds, entries["random"].aubc.values, strict=True))
    (value,) = entries["margin"].aubc.values
    assert _marks(axes)[1][:2] == pytest.approx((1, value - random[2]))
    # One seed: no interval, and no ring on top of its own mark.
    assert set(_intervals(axes)) == {0}
    assert len(axes.collections) == 1
    assert [tick.get_text() for tick in axes.get_yticklabels()][1] == "margin (n = 1)"


def test_the_axis_tells_the_baseline_and_names_are_taken_literally(whole):
    figure = draw_gains(whole, summarise(whole, "margin"))
    axes = figure.axes[0]
    assert axes.get_xlabel() == "AUBC, less that of margin"
    assert not any(tick.get_parse_math() for tick in axes.get_yticklabels())
    again = draw_gains(whole, summarise(whole, "margin"))
    assert render(figure, "svg") == render(again, "svg")


def test_the_page_shows_it_above_the_tests(tmp_path):
    folder = write_comparison(tmp_path)
    files = write_report(folder)
    names = [path.name for path in files.figures]
    assert {"gains.png", "gains.svg"} <= set(names)
    page = files.html.read_text(encoding="utf-8")
    assert page.index('id="gains"') < page.index("Paired tests against random")
    assert "a ring for each seed, and a bar for the 95 % interval." in page


def test_there_is_none_without_a_baseline(tmp_path):
    folder = write_comparison(tmp_path, strategies=("margin",))
    files = write_report(folder)
    assert not any(path.name.startswith("gains") for path in files.figures)
    assert 'id="gains"' not in files.html.read_text(encoding="utf-8")
