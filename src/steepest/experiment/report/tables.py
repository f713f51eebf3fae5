"""Tables for terminals, the main results as their rows, and cells of the page's tables."""

from __future__ import annotations

import re
from collections.abc import Sequence

from steepest.core.markup import Safe, element, heat_cell
from steepest.experiment.report import numbers
from steepest.experiment.report.numbers import words_of
from steepest.experiment.statistics import Summary

# A number with sign, exponent, percent, deviation and count: "-1e-3", "0.9 ± 0.1", "58 (3/3)".
_NUMBER = re.compile(r"(–|[<>+−-]?\s?\d[\d.,]*(e[+-]?\d+)?( ?%)?( ± [\d.]+)?)( \(\d+/\d+\))?")


def summary_rows(summary: Summary) -> tuple[list[str], list[list[str]]]:
    """Return header and rows of the main results: ``text_table(*summary_rows(summary))``.

    Where strategies rest on different numbers of seeds, n has a separate column.
    """
    against = f" vs {summary.baseline}" if summary.baseline else ""
    # A bare ± could be a standard error just as well.
    spread = " ± sd" if max(summary.counts) > 1 else ""
    header = [
        "strategy",
        f"AUBC{spread}" if summary.ragged else f"AUBC{spread} (n={summary.n})",
        f"{words_of(summary.metric).measure('final_value')}{spread}",
        f"labels saved{against}",
        "p (t, Holm)",
        "scoring s",
    ]
    p_holm = {c.strategy: c.t_p_holm for c in summary.contrasts if c.measure == "aubc"}
    rows = [
        [
            entry.strategy,
            numbers.spread(entry.aubc),
            numbers.spread(entry.final_value),
            numbers.saved(entry.labels_saved),
            numbers.p_value(p_holm.get(entry.strategy)),
            numbers.seconds(entry.scoring_seconds),
        ]
        for entry in summary.strategies
    ]
    if any(entry.auxiliary_seconds for entry in summary.strategies):
        header.append("auxiliary s")
        for row, entry in zip(rows, summary.strategies, strict=True):
            row.append(numbers.seconds(entry.auxiliary_seconds))
    if summary.ragged:
        header.insert(1, "n")
        for row, entry in zip(rows, summary.strategies, strict=True):
            row.insert(1, str(entry.n))
    return header, rows


def text_table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return a table of aligned columns, numbers to the right.

    Args:
        header: Names of the columns.
        rows: Cells in the order of the header.
    """
    cells = [[str(cell) for cell in row] for row in rows]
    columns = list(zip(header, *cells, strict=True))
    widths = [max(len(cell) for cell in column) for column in columns]
    right = [_is_numeric(column[1:]) for column in columns]
    lines = [header, ["-" * width for width in widths], *cells]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if to_right else cell.ljust(width)
            for cell, width, to_right in zip(line, widths, right, strict=True)
        ).rstrip()
        for line in lines
    )


def _is_numeric(column: Sequence[str]) -> bool:
    """Say whether all cells are numbers, or signs for none."""
    text = [cell for cell in column if cell.strip()]
    return bool(text) and all(_NUMBER.fullmatch(cell) for cell in text)


def share_cell(value: float | None) -> Safe:
    """Return a table cell with a share of few things on a ground as strong as it is large."""
    if value is None:
        return element("td", numbers.DASH)
    return heat_cell(numbers.mean_share(value), value)
