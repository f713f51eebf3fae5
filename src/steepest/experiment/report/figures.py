"""Figures: learning curves, gains over the baseline and penalty matrix, byte for byte the same."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from steepest.core.markup import Safe, escape
from steepest.experiment.comparison import BASELINE, Comparison
from steepest.experiment.report.numbers import DASH, words_of
from steepest.experiment.statistics import Contrast, Penalty, StrategySummary, Summary

if TYPE_CHECKING:  # Matplotlib is imported by the first figure
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.text import Text

INK = "#1f2328"
GRID = "#d5d9df"
PAPER = "#ffffff"
BLUE = "#0072b2"

# Okabe and Ito's colours, which colour-blind readers can distinguish; without yellow, which is too
# pale on white. Lengths without a common factor keep colour, marker and dash from repeating
# together.
_COLOURS = (BLUE, "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
_DASHES: tuple[Any, ...] = ("-", (0, (6, 1.5)), (0, (5, 1.5, 1, 1.5)), (0, (2, 1)), (0, (9, 2)))

SETTINGS: dict[Any, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "svg.fonttype": "none",
    "svg.hashsalt": "steepest",
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": GRID,
    "xtick.color": INK,
    "ytick.color": INK,
    "figure.facecolor": PAPER,
    "axes.facecolor": PAPER,
    "savefig.facecolor": PAPER,
}
"""Settings of matplotlib, so that figures look alike on every machine."""

_SVG_METADATA = {"Date": None, "Creator": None, "Format": None, "Type": None}
_ROW_INCHES = 0.34
SEEDS_OF_A_BAND = 5
"""With fewer, Student's t makes bands so wide that they cover each other."""

_PAGE_COLOURS = {
    INK: "var(--ink)",
    GRID: "var(--line)",
    PAPER: "var(--panel)",
    BLUE: "var(--blue)",
}


@dataclass(frozen=True)
class LineStyle:
    """Line style of a strategy, distinct without colour as well."""

    colour: str
    marker: str
    dash: Any


def line_styles(strategies: Sequence[str]) -> dict[str, LineStyle]:
    """Give each strategy its own style; random is always dotted in the colour of the text."""
    styles: dict[str, LineStyle] = {}
    for name in strategies:
        if name == BASELINE:
            styles[name] = LineStyle(INK, "x", (0, (1.5, 1.5)))
            continue
        turn = len([known for known in styles if known != BASELINE])
        styles[name] = LineStyle(
            _COLOURS[turn % len(_COLOURS)],
            _MARKERS[turn % len(_MARKERS)],
            _DASHES[turn % len(_DASHES)],
        )
    return styles


def draw_learning_curves(comparison: Comparison, summary: Summary) -> Figure:
    """Draw the mean of each strategy, with a band or its single seeds.

    A band takes five seeds; of fewer seeds each is drawn as a faint line. Runs outside of the
    statistics are thin lines with markers.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(SETTINGS):
        figure = Figure(figsize=(7.2, 4.4), layout="constrained")
        axes = figure.add_subplot()
        styles = line_styles(comparison.strategies)
        handles = _draw_means(axes, summary, styles)
        counted = {entry.strategy: entry.seeds for entry in summary.strategies}
        for name in comparison.strategies:
            for run in comparison.begun_runs(name):
                if run.seed not in counted.get(name, ()):
                    values = run.curve(summary.metric)
                    (line,) = _draw_line(axes, run.budgets, values, styles[name], thin=True)
                    handles.setdefault(name, line)
        _draw_spread(axes, comparison, summary, styles)
        axes.set_xlabel("labelled samples")
        axes.set_ylabel(words_of(summary.metric).name)
        _tick_budgets(axes, comparison)
        _keep_to_shares(axes, comparison, summary.metric)
        axes.grid(color=GRID, linewidth=0.7)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
        # A leading underscore would hide the entry.
        sentence = {e.strategy: f"{e.strategy} (n = {e.n})" for e in summary.strategies}
        shown = [sentence.get(name, name) if summary.ragged else name for name in handles]
        labels = [f" {name}" if name.startswith("_") else name for name in shown]
        legend = figure.legend(
            list(handles.values()),
            labels,
            loc="outside lower center",
            ncols=min(3, len(handles)),
            frameon=False,
            handlelength=3.6,
        )
        take_literally(legend.get_texts())
    return figure


def draw_penalty(penalty: Penalty) -> Figure:
    """Draw the penalty matrix: how often the row beats the column; a dash if not judged."""
    import matplotlib as mpl
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.figure import Figure

    names = penalty.strategies
    side = 2.2 + 0.75 * len(names)
    with mpl.rc_context(SETTINGS):
        figure = Figure(figsize=(side + 0.6, side), layout="constrained")
        axes = figure.add_subplot()
        blues = LinearSegmentedColormap.from_list("blues", [PAPER, BLUE])
        # Cells as rectangles: an image inside an SVG would blur, and could not be restyled.
        shades = [[value or 0.0 for value in row] for row in penalty.matrix]
        axes.pcolormesh(shades, cmap=blues, vmin=0.0, vmax=1.0, edgecolor=GRID)
        for i, row in enumerate(penalty.matrix):
            for j, value in enumerate(row):
                text = DASH if i == j or value is None else f"{value:.2f}"
                colour = PAPER if shades[i][j] > 0.6 else INK
                axes.text(j + 0.5, i + 0.5, text, ha="center", va="center", color=colour)
        centres = [k + 0.5 for k in range(len(names))]
        axes.set_xticks(centres, labels=names, rotation=35, ha="right", rotation_mode="anchor")
        axes.set_yticks(centres, labels=names)
        take_literally([*axes.get_xticklabels(), *axes.get_yticklabels()])
        axes.tick_params(length=0)
        axes.invert_yaxis()
        axes.set_aspect("equal")
        axes.set_xlabel("is beaten (column)")
        axes.set_ylabel("wins (row)")
        axes.set_title("share of budgets at which the row beats the column", fontsize=9)
    return figure


def render(figure: Figure, kind: Literal["png", "svg"]) -> bytes:
    """Return a figure as a file's bytes; the same figure gives the same bytes."""
    import matplotlib as mpl

    metadata = _SVG_METADATA if kind == "svg" else {"Software": None}
    buffer = io.BytesIO()
    with mpl.rc_context(SETTINGS), warnings.catch_warnings():
        # A name in a script that the font lacks is drawn as boxes; the page has the real text.
        warnings.filterwarnings("ignore", message="Glyph .* missing from (current )?font")
        figure.savefig(buffer, format=kind, dpi=160, metadata=metadata)
    return buffer.getvalue()


def take_literally(texts: Sequence[Text]) -> None:
    """Let names stand as they are: dollar signs would be read as formulas."""
    for text in texts:
        text.set_parse_math(False)


def _draw_means(axes: Axes, summary: Summary, styles: dict[str, LineStyle]) -> dict[str, Any]:
    handles: dict[str, Any] = {}
    for entry in summary.strategies:
        curve, style = entry.curve, styles[entry.strategy]
        (handles[entry.strategy],) = _draw_line(axes, curve.budgets, curve.mean, style)
    return handles


def _draw_spread(
    axes: Axes, comparison: Comparison, summary: Summary, styles: dict[str, LineStyle]
) -> None:
    """Draw bands behind the means, or a faint line for each seed where seeds are few."""
    shares = _are_shares(comparison, summary.metric)
    for entry in summary.strategies:
        curve, colour = entry.curve, styles[entry.strategy].colour
        if entry.n >= SEEDS_OF_A_BAND:
            low, high = (
                [min(max(v, 0.0), 1.0) for v in side] if shares else side
                for side in (curve.low, curve.high)
            )
            axes.fill_between(curve.budgets, low, high, color=colour, alpha=0.13, linewidth=0)
        elif entry.n > 1:
            for seed in entry.seeds:
                run = comparison.runs[entry.strategy, seed]
                values = run.curve(summary.metric)
                axes.plot(run.budgets, values, color=colour, linewidth=0.7, alpha=0.4, zorder=1.5)


def _draw_line(axes: Axes, x: Any, y: Any, style: LineStyle, *, thin: bool = False) -> Any:  # noqa: ANN401 - matplotlib's own types are imported late
    return axes.plot(
        x,
        y,
        color=style.colour,
        linestyle=style.dash,
        linewidth=0.8 if thin else 1.8,
        marker=style.marker,
        markersize=3 if thin else 5.5,
        alpha=0.6 if thin else 1.0,
    )


def _tick_budgets(axes: Axes, comparison: Comparison) -> None:
    """Put a tick at each budget, or at round numbers if there are many."""
    from matplotlib.ticker import FixedLocator, MaxNLocator

    budgets = {int(b) for run in comparison.runs.values() for b in run.budgets}
    few = len(budgets) <= 12
    axes.xaxis.set_major_locator(
        FixedLocator(sorted(budgets)) if few else MaxNLocator(integer=True)
    )


def _are_shares(comparison: Comparison, metric: str) -> bool:
    return all(0 <= v <= 1 for run in comparison.runs.values() for v in run.curve(metric))


def _keep_to_shares(axes: Axes, comparison: Comparison, metric: str) -> None:
    """Keep the axis within what a share can be, if the values are shares."""
    if _are_shares(comparison, metric):
        low, high = axes.get_ylim()
        axes.set_ylim(max(low, -0.02), min(high, 1.02))


if TYPE_CHECKING:  # Matplotlib is imported by the first figure
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def seeds_of_an_interval(summary: Summary) -> int:
    """Return how many seeds an interval takes: three where a strategy has them, otherwise two.

    With two seeds Student's t is 12.7: such an interval would dwarf all others.
    """
    return min(3, max([2, *summary.counts]))


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
            shown = gain.test.n >= seeds_of_an_interval(summary)
            _draw_row(axes, row, gain, by_seed, styles[gain.strategy], interval=shown)
        sentence = [f"{gain.strategy} (n = {gain.test.n})" for gain in gains]
        axes.set_yticks(range(len(gains)), labels=sentence)
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


def inline_svg(svg: bytes, identity: str, description: str) -> Safe:
    """Return an SVG file as an element of an HTML page.

    The XML header goes, ids get a prefix so that two figures do not clash, the style sheet is
    kept to the figure, and ink, grid, paper and the
    darkest colour follow the page, light or dark.

    Args:
        svg: The file.
        identity: Prefix of its ids.
        description: A description of the figure for screen readers.
    """
    text = svg.decode("utf-8")
    text = text[text.index("<svg") :].strip()
    opening, rest = text.split(">", 1)
    opening = re.sub(r' (width|height|id)="[^"]*"', "", opening)
    opening += f' id="{identity}" role="img" aria-label="{escape(description)}"'
    rest = re.sub(r"<metadata>.*?</metadata>", "", rest, flags=re.DOTALL)
    rest = re.sub(r'\bid="([^"]+)"', rf'id="{identity}-\1"', rest)
    rest = re.sub(r'xlink:href="#([^"]+)"', rf'xlink:href="#{identity}-\1"', rest)
    rest = re.sub(r"url\(#([^)]+)\)", rf"url(#{identity}-\1)", rest)
    rest = rest.replace("*{", f"#{identity} *{{", 1)
    for drawn, shown in _PAGE_COLOURS.items():
        rest = re.sub(rf"\b(fill|stroke): {drawn}\b", rf"\1: {shown}", rest)
    return Safe(f"{opening}>{rest}")
