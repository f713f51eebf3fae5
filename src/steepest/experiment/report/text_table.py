"""Tables for terminals."""

from __future__ import annotations

import re
from collections.abc import Sequence

# A number with sign, exponent, percent, deviation and count: "-1e-3", "0.9 ± 0.1", "58 (3/3)".
_NUMBER = re.compile(r"(–|[<>+−-]?\s?\d[\d.,]*(e[+-]?\d+)?( ?%)?( ± [\d.]+)?)( \(\d+/\d+\))?")


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
    told = [cell for cell in column if cell.strip()]
    return bool(told) and all(_NUMBER.fullmatch(cell) for cell in told)
