"""The figure of gains: by how much each strategy's curve lies above the baseline's, seed by seed.

Learning curves of good strategies lie on each other; what is left between them is seen here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from steepest.experiment.outcomes import Comparison
from steepest.experiment.report.figures import (
    GRID,
    INK,
    SETTINGS,
    LineStyle,
    line_styles,
    seeds_of_a_band,
    take_literally,
)
from steepest.experiment.report.metric_words import words_of
from steepest.experiment.statistics import Contrast, StrategySummary, Summary

if TYPE_CHECKING:  # Matplotlib is imported by the first figure
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_ROW_INCHES = 0.34


def gains_of(summary: Summary) -> tuple[Contrast, ...]:
    """Return what the figure shows: each strategy's area under the curve beside the baseline's."""
    return tuple(contrast for contrast in summary.contrasts if contrast.measure == "aubc")


def draw_gains(comparison: Comparison, summary: Summary) -> Figure:
    """Draw a row per strategy: mean difference, its interval, and a ring for each seed.

    Args:
        comparison: The records, whose strategies look as they do in the learning curves.
        summary: Their statistics, with at least one contrast.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure

    entries = {entry.strategy: entry for entry in summary.strategies}
    styles = line_styles(comparison.strategies)
    gains = gains_of(summary)
    with mpl.rc_context(SETTINGS):
        figure = Figure(figsize=(7.2, 1.1 + _ROW_INCHES * len(gains)), layout="constrained")
        axes = figure.add_subplot()
        axes.axvline(0.0, color=INK, linewidth=1.2, linestyle=(0, (1.5, 1.5)))
        for row, gain in enumerate(gains):
            by_seed = _differences(entries[gain.strategy], entries[gain.baseline])
            shown = gain.test.n >= seeds_of_a_band(summary)
            _draw_row(axes, row, gain, by_seed, styles[gain.strategy], interval=shown)
        told = [f"{gain.strategy} (n = {gain.test.n})" for gain in gains]
        axes.set_yticks(range(len(gains)), labels=told)
        take_literally(axes.get_yticklabels())
        axes.set_ylim(len(gains) - 0.5, -0.5)
        words = words_of(summary.metric)
        label = axes.set_xlabel(f"{words.measure('aubc')}, less that of {summary.baseline}")
        take_literally([label])
        axes.grid(axis="x", color=GRID, linewidth=0.7)
        axes.set_axisbelow(True)
        axes.tick_params(axis="y", length=0)
        axes.spines[["top", "right", "left"]].set_visible(False)
    return figure


def _differences(entry: StrategySummary, baseline: StrategySummary) -> list[float]:
    """Return the gain with each of the strategy's seeds, all of which the baseline has too."""
    held = dict(zip(baseline.seeds, baseline.aubc.values, strict=True))
    both = zip(entry.seeds, entry.aubc.values, strict=True)
    return [value - held[seed] for seed, value in both]


def _draw_row(
    axes: Axes,
    row: int,
    gain: Contrast,
    by_seed: list[float],
    style: LineStyle,
    *,
    interval: bool,
) -> None:
    low, high = gain.test.low, gain.test.high
    if interval and low is not None and high is not None:
        axes.plot([low, high], [row, row], color=style.colour, linewidth=2.2, alpha=0.55)
    if len(by_seed) > 1:
        rows = [row] * len(by_seed)
        axes.scatter(
            by_seed,
            rows,
            s=20,
            facecolors="none",
            edgecolors=style.colour,
            linewidths=0.9,
            zorder=3,
        )
    axes.plot(
        [gain.test.mean_difference],
        [row],
        color=style.colour,
        linestyle="none",
        marker=style.marker,
        markersize=7.0,
        zorder=4,
    )
