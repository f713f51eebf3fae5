"""Figures of panels, the same bytes for the same numbers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from steepest.experiment.report.figures import GRID, SETTINGS
from steepest.paper.parts import FigurePart

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_FONT_SIZE = 9
"""Panels are narrower than the figures of a report."""


def draw_figure(part: FigurePart) -> Figure:
    """Draw the panels of a figure, two in a row, with one legend for all."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    columns = min(2, len(part.panels))
    lines = math.ceil(len(part.panels) / columns)
    with mpl.rc_context({**SETTINGS, "font.size": _FONT_SIZE}):
        figure = Figure(figsize=(0.8 + 4.4 * columns, 0.9 + 3.4 * lines), layout="constrained")
        legend: dict[str, Any] = {}
        for number, panel in enumerate(part.panels, start=1):
            axes = figure.add_subplot(lines, columns, number)
            panel.draw(axes)
            axes.set_title(panel.title, fontsize=10, parse_math=False)
            axes.set_xlabel(panel.x)
            axes.set_ylabel(panel.y)
            axes.grid(color=GRID, linewidth=0.7)
            axes.set_axisbelow(True)
            axes.spines[["top", "right"]].set_visible(False)
            handles, labels = axes.get_legend_handles_labels()
            for handle, label in zip(handles, labels, strict=True):
                legend.setdefault(label, handle)
        if legend:
            figure.legend(
                list(legend.values()), list(legend), loc="outside lower center",
                ncols=min(2 * columns, len(legend)), frameon=False, handlelength=3.2,
            )  # fmt: skip
    return figure
