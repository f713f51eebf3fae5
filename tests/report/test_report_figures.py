from __future__ import annotations

import io
import re
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from fake_runs import make_entry, write_comparison
from PIL import Image

from steepest.experiment.comparison import Comparison, Run
from steepest.experiment.report import read_comparison
from steepest.experiment.report.figures import (
    draw_learning_curves,
    draw_penalty,
    inline_svg,
    line_styles,
    render,
)
from steepest.experiment.statistics import summarise


@pytest.fixture(scope="module")
def comparison(tmp_path_factory):
    return read_comparison(write_comparison(tmp_path_factory.mktemp("fig"), cut=[("margin", 2)]))


@pytest.fixture(scope="module")
def curves_svg(comparison):
    return render(draw_learning_curves(comparison, summarise(comparison)), "svg")


def test_the_same_numbers_give_the_same_bytes(comparison, curves_svg):
    summary = summarise(comparison)
    assert render(draw_learning_curves(comparison, summary), "svg") == curves_svg
    assert summary.penalty is not None
    first, second = (render(draw_penalty(summary.penalty), "svg") for _ in range(2))
    assert first == second


def test_text_in_a_figure_is_text(curves_svg):
    texts = {element.text for element in ET.fromstring(curves_svg).iter() if element.text}
    assert {"labelled samples", "test accuracy", "margin (n = 2)", "random (n = 3)"} <= texts


def test_a_run_outside_of_the_statistics_is_a_thin_line(comparison):
    axes = draw_learning_curves(comparison, summarise(comparison)).axes[0]
    widths = sorted(line.get_linewidth() for line in axes.lines)
    # Three means, the seeds they are of, and by itself the run that was cut short.
    assert widths == [0.7] * 8 + [0.8] + [1.8] * 3


def test_a_run_without_its_pair_in_the_baseline_is_a_thin_line(tmp_path):
    unpaired = read_comparison(write_comparison(tmp_path, missing=[("random", 2)]))
    axes = draw_learning_curves(unpaired, summarise(unpaired)).axes[0]
    assert sorted(line.get_linewidth() for line in axes.lines) == [0.7] * 6 + [0.8] * 2 + [1.8] * 3


def test_the_legend_tells_n_where_it_differs(comparison, tmp_path):
    (legend,) = draw_learning_curves(comparison, summarise(comparison)).legends
    told = [text.get_text() for text in legend.get_texts()]
    assert told == ["entropy-gradnorm (n = 3)", "margin (n = 2)", "random (n = 3)"]
    whole = read_comparison(write_comparison(tmp_path))
    (legend,) = draw_learning_curves(whole, summarise(whole)).legends
    assert [text.get_text() for text in legend.get_texts()] == list(whole.strategies)


def test_a_pair_that_was_not_judged_is_a_dash_in_the_figure(tmp_path):
    gone = [("margin", 1), ("margin", 2)]
    penalty = summarise(read_comparison(write_comparison(tmp_path, missing=gone))).penalty
    assert penalty is not None
    shown = [text.get_text() for text in draw_penalty(penalty).axes[0].texts]
    assert [text == "–" for text in shown] == [
        True, True, False,
        True, True, True,
        False, True, True,
    ]  # fmt: skip


def test_means_and_bands_are_those_of_the_summary(comparison):
    summary = summarise(comparison)
    axes = draw_learning_curves(comparison, summary).axes[0]
    drawn = [np.asarray(line.get_ydata()).tolist() for line in axes.lines[:3]]
    assert drawn == [list(entry.curve.mean) for entry in summary.strategies]
    assert not axes.collections  # no bands: fewer than five seeds
    seeds = [line.get_ydata() for line in axes.lines if line.get_linewidth() == 0.7]
    assert len(seeds) == sum(entry.n for entry in summary.strategies)
    first = summary.strategies[0]
    run = comparison.runs[first.strategy, first.seeds[0]]
    assert list(seeds[0]) == list(run.curve(summary.metric))


def compare_flat_curves(*values: float) -> Comparison:
    """Make a comparison of one strategy, whose runs do not learn."""
    runs = {}
    for seed, value in enumerate(values):
        entries = tuple(make_entry("random", seed, cycle, 2) for cycle in range(2))
        for entry in entries:
            entry["metrics"] = {"accuracy": value}
        runs["random", seed] = Run("random", seed, entries)
    return Comparison("wide", ("random",), tuple(range(len(values))), runs, config={})


def test_a_band_of_five_seeds_stays_within_what_shares_can_be():
    comparison = compare_flat_curves(0.02, 0.98, 0.02, 0.98, 0.02)
    summary = summarise(comparison)
    assert summary.strategies[0].curve.low[0] < 0
    axes = draw_learning_curves(comparison, summary).axes[0]
    (band,) = axes.collections
    heights = band.get_paths()[0].vertices[:, 1]
    assert heights.min() == 0
    assert heights.max() == 1 < summary.strategies[0].curve.high[0]
    assert axes.get_ylim()[0] >= -0.02
    assert [line.get_linewidth() for line in axes.lines] == [1.8]


def test_one_seed_is_its_mean():
    axes = draw_learning_curves(c := compare_flat_curves(0.5), summarise(c)).axes[0]
    assert len(axes.lines) == 1


def test_the_axis_shows_values_that_are_no_shares():
    comparison = compare_flat_curves(-3.0, 7.0)
    low, high = draw_learning_curves(comparison, summarise(comparison)).axes[0].get_ylim()
    assert low < -3
    assert high > 7


def test_strategies_differ_without_colour():
    names = ["random", *(f"strategy {k}" for k in range(30))]
    styles = line_styles(names)
    assert len({(style.marker, str(style.dash)) for style in styles.values()}) == 31
    assert styles["random"] == line_styles(["margin", "random"])["random"]


def test_the_penalty_figure_puts_rows_from_the_top(comparison):
    penalty = summarise(comparison).penalty
    assert penalty is not None
    axes = draw_penalty(penalty).axes[0]
    assert axes.yaxis_inverted()
    shown = {(t.get_position()[1], t.get_position()[0]): t.get_text() for t in axes.texts}
    for i, row in enumerate(penalty.matrix):
        for j, value in enumerate(row):
            if i != j:
                assert shown[i + 0.5, j + 0.5] == f"{value:.2f}"


def test_odd_names_are_drawn_as_they_are(tmp_path):
    names = ["$x_1$", "_hidden", "a<b>&", "日本", "random"]
    comparison = read_comparison(write_comparison(tmp_path, names, seeds=(0, 1), cycles=2))
    summary = summarise(comparison)
    figure = draw_learning_curves(comparison, summary)
    texts = [(e.text or "").strip() for e in ET.fromstring(render(figure, "svg")).iter()]
    assert set(names) <= set(texts)
    assert summary.penalty is not None
    assert Image.open(io.BytesIO(render(draw_penalty(summary.penalty), "png"))).format == "PNG"


def test_an_inline_figure_refers_to_nothing_outside(curves_svg):
    inline = inline_svg(curves_svg, "fig", 'curves of "a" <b>')
    assert inline.startswith("<svg")
    assert 'role="img"' in inline
    assert 'aria-label="curves of &quot;a&quot; &lt;b&gt;"' in inline
    links = set(re.findall(r"https?://[^\"\s]+", inline))
    assert links == {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}
    root = ET.fromstring(inline)
    ids = [element.get("id") for element in root.iter() if element.get("id")]
    assert len(ids) == len(set(ids))
    assert all(name == "fig" or str(name).startswith("fig-") for name in ids)
    targets = re.findall(r"url\(#([^)]+)\)", inline) + re.findall(r'href="#([^"]+)"', inline)
    assert targets
    assert set(targets) <= set(ids)


def test_an_inline_figure_takes_the_colours_of_the_page(curves_svg):
    inline = inline_svg(curves_svg, "fig", "curves")
    assert "var(--ink)" in inline
    assert "var(--panel)" in inline
    assert not re.search(r"(fill|stroke): #(ffffff|1f2328|d5d9df)", inline)
    style = re.search(r"<style[^>]*>(.*?)</style>", inline, re.DOTALL)
    assert style is not None
    assert style.group(1).strip().startswith("#fig *{")
