from __future__ import annotations

import matplotlib as mpl
import pytest

from steepest.experiment.report.figures import SETTINGS
from steepest.paper.page_parts import FigurePart, Panel
from steepest.paper.writing import draw_figure


def drawn_with(key):
    """Return what a setting is while a panel is drawn."""
    seen = []
    panel = Panel("title", "x", "y", lambda _: seen.append(mpl.rcParams[key]))
    draw_figure(FigurePart("name", "caption", "description", (panel,)))
    return seen[0]


@pytest.mark.parametrize("key", sorted(set(SETTINGS) - {"font.size", "font.family"}))
def test_panels_are_drawn_as_the_figures_of_a_report(key, monkeypatch):
    other = {"svg.fonttype": "path", "svg.hashsalt": "another"}.get(key, "#123456")
    monkeypatch.setitem(SETTINGS, key, other)
    assert drawn_with(key) == other


def test_their_text_is_smaller():
    assert drawn_with("font.size") == 9
    assert SETTINGS["font.size"] == 10
