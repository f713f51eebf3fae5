"""A figure inside the page: no outside reference, own ids, colours of the page."""

from __future__ import annotations

import re

from steepest.core.markup import Safe, escape
from steepest.experiment.report import figures

_PAGE_COLOURS = {
    figures.INK: "var(--ink)",
    figures.GRID: "var(--line)",
    figures.PAPER: "var(--panel)",
    figures.BLUE: "var(--blue)",
}


def inline_svg(svg: bytes, identity: str, description: str) -> Safe:
    """Return an SVG file as an element of an HTML page.

    The XML header goes, ids get a prefix so that two figures do not clash, the style sheet is
    kept to the figure, and ink, grid, paper and the
    darkest colour follow the page, light or dark.

    Args:
        svg: The file.
        identity: Prefix of its ids.
        description: What the figure shows, for those who do not see it.
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
