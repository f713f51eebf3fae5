"""Parts of an artefact's page: tables and figures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from steepest.experiment.report.numbers import DASH, MINUS

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
        note: What to know about it; may be empty.
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
        description: What it shows, for those who do not see it.
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
