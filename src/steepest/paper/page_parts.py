"""Parts of an artefact's page: tables, also by method and budget, and figures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from steepest.experiment.report.numbers import DASH, MINUS, signed

if TYPE_CHECKING:  # Matplotlib is imported by the first figure.
    from matplotlib.axes import Axes

Row = Mapping[str, Any]
"""One number, with what it is about."""


@dataclass(frozen=True)
class TablePart:
    """A table.

    Attributes:
        title: Its caption.
        header: Names of the columns.
        rows: Cells as text; the first of each heads its row.
        note: A remark; may be empty.
    """

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""


@dataclass(frozen=True)
class Panel:
    """One pair of axes of a figure.

    Attributes:
        title: Above it.
        x: Name of the horizontal axis.
        y: Name of the vertical axis.
        draw: Draws into the axes; styles are set before it is called.
    """

    title: str
    x: str
    y: str
    draw: Callable[[Axes], None]


@dataclass(frozen=True)
class FigurePart:
    """A figure, written as SVG and PNG.

    Attributes:
        name: Name of its files, without the ending.
        caption: Below it.
        description: A description for screen readers.
        panels: Side by side, two in a row.
    """

    name: str
    caption: str
    description: str
    panels: tuple[Panel, ...]


Part = TablePart | FigurePart


def cell(value: object, decimals: int = 2) -> str:
    """Return a value as a cell: numbers with so many decimals, a dash for none."""
    if value is None:
        return DASH
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    return str(value) if isinstance(value, int) else f"{value:.{decimals}f}".replace("-", MINUS)


def rows_table(title: str, rows: Sequence[Row]) -> TablePart:
    """Return rows as they are, with a column for every key in the order of appearance."""
    header = tuple(dict.fromkeys(key for row in rows for key in row))
    cells = tuple(tuple(_told(row.get(key)) for key in header) for row in rows)
    return TablePart(title, header, cells)


def _told(value: object) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(str(part) for part in value)
    return cell(value)


def curve_table(
    title: str, rows: Sequence[Row], place: str = "share", decimals: int = 2, unit: str = " %"
) -> TablePart:
    """Return ours, the published number and the difference of each method.

    Args:
        title: Caption of the table.
        rows: With ``method``, the column ``place``, and what ``measured.row`` gives.
        place: The key that says the column.
        decimals: Of all numbers.
        unit: Said after each place in the header.
    """
    places = sorted({r[place] for r in rows})
    lines: list[tuple[str, ...]] = []
    for method in dict.fromkeys(r["method"] for r in rows):
        own = {r[place]: r for r in rows if r["method"] == method}
        counts = [r["n"] for r in own.values()]
        n = max(counts, default=0)
        seeds = sorted({s for r in own.values() for s in r["seeds"]})
        listed = f"{'seed' if len(seeds) == 1 else 'seeds'} {', '.join(map(str, seeds))}"
        text = f"ours, n = {n} ({listed})" if n else "ours: not there"
        lines.append((method, text, *(_ours(own.get(p), decimals) for p in places)))
        if any(r["paper"] is not None for r in own.values()):
            lines.append(("", "published", *(_paper(own.get(p), decimals) for p in places)))
        if any(r["difference"] is not None for r in own.values()):
            differences = (
                signed(own[p]["difference"], decimals) if p in own else DASH for p in places
            )
            lines.append(("", "difference", *differences))
    header = ("method", "", *(f"{p}{unit}" for p in places))
    return TablePart(title, header, tuple(lines), _sources(rows))


def _ours(r: Row | None, decimals: int) -> str:
    if r is None or r["ours"] is None:
        return DASH
    spread = "" if r["sd"] is None else f" ± {r['sd']:.{decimals}f}"
    return f"{cell(float(r['ours']), decimals)}{spread}"


def _paper(r: Row | None, decimals: int) -> str:
    if r is None or r["paper"] is None:
        return DASH
    sign = {"at most": "≤ ", "about": "≈ "}.get(r.get("relation", ""), "")
    doubt = " ?" if r.get("uncertain") else ""
    return f"{sign}{cell(float(r['paper']), decimals)}{doubt}"


def _sources(rows: Sequence[Row]) -> str:
    known = list(dict.fromkeys(r["source"] for r in rows if r["source"]))
    return f"Published: {'; '.join(known)}." if known else "No number is published for this."
