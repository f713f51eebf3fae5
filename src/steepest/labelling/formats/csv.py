"""Tables: columns ``id`` and ``label`` (or ``labels``), and optionally ``skip``."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from steepest.core.files import write_atomically
from steepest.core.wording import counted
from steepest.errors import InputError
from steepest.labelling.formats.base import (
    FORMATS,
    LabelFormat,
    LabelSet,
    Row,
    read_text,
    skip_reason,
)
from steepest.labelling.names import BAR
from steepest.selecting.selection import Selection

_SEPARATORS = (",", ";", "\t")
_ID_COLUMN = frozenset({"id"})
_LABEL_COLUMNS = frozenset({"label", "labels"})


@FORMATS.register("csv")
class Csv(LabelFormat):
    """A table with a header."""

    suffixes = (".csv", ".tsv")
    empty = True

    def write(self, labels: LabelSet, path: Path) -> None:
        """Write one file."""
        cells = ([sample, BAR.join(names) or BAR] for sample, names in labels.labels.items())
        write_atomically(path, table_text([["id", "label"], *cells]))

    def read(self, path: Path) -> Iterator[Row]:
        """Read one file."""
        yield from read_csv(path)


def read_csv(path: Path) -> Iterator[Row]:
    """Read a table with a header; columns other than ours are passed over.

    Raises:
        InputError: With the line's number, if a row is malformed.
    """
    for where, named in _named_cells(path, (_ID_COLUMN, _LABEL_COLUMNS)):
        label = next(named[name] for name in named if name in _LABEL_COLUMNS)
        skip = skip_reason(named.get("skip", ""))
        who, at = (named.get(name, "").strip() for name in ("annotator", "at"))
        yield Row(where, named["id"], label, skip, who, at)


def read_ids(path: Path) -> Iterator[Row]:
    """Read who is named in a table without labels, such as picks that were saved.

    Raises:
        InputError: With the line's number, if a row is malformed.
    """
    for where, named in _named_cells(path, (_ID_COLUMN,)):
        yield Row(where, named["id"], None)


def _named_cells(
    path: Path, needed: Sequence[frozenset[str]]
) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the place of each row and its cells by column.

    Commas, semicolons and tabs separate cells, as spreadsheets of various countries write them.
    """
    # Not by lines: a quoted cell may hold line ends.
    text = read_text(path)
    first = text.split("\n", 1)[0]
    separator = max(_SEPARATORS, key=first.count)
    table = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    header: list[str] | None = None
    while True:
        line = table.line_num + 1
        try:
            cells = next(table)
        except StopIteration:
            break
        except csv.Error as error:
            raise InputError(f"{path}, line {line}: is malformed ({error})") from error
        if not any(cell.strip() for cell in cells):
            continue
        if header is None:
            header = _check_header(cells, path, needed)
        elif len(cells) != len(header):
            quoted = f"; put names with {separator!r} in them in quotes"
            raise InputError(
                f"{path}, line {line}: has {counted(len(cells), 'cell')} where the header has "
                f"{len(header)}{quoted if len(cells) > len(header) else ''}"
            )
        else:
            yield f"line {line}", dict(zip(header, cells, strict=True))


def is_sheet(path: Path) -> bool:
    """Return whether a file is a table for labels, filled in or not."""
    header = _column_names(path)
    return header >= _ID_COLUMN and bool(header & _LABEL_COLUMNS)


def is_table_of_ids(path: Path) -> bool:
    """Return whether a file is a table of samples without a column for labels."""
    header = _column_names(path)
    return header >= _ID_COLUMN and not header & _LABEL_COLUMNS


def _column_names(path: Path) -> frozenset[str]:
    """Return what the first line of a file would call its columns."""
    try:
        first = read_text(path).split("\n", 1)[0]
    except InputError:
        return frozenset()
    separator = max(_SEPARATORS, key=first.count)
    return frozenset(cell.strip().strip('"').lower() for cell in first.split(separator))


def sheet(picks: Selection) -> str:
    """Return picks as a table whose column ``label`` is to be filled in."""
    rows = zip(picks.ids, picks.ranks, picks.scores, strict=True)
    cells = [
        [sample, "", "", rank, "" if math.isnan(score) else repr(score)]
        for sample, rank, score in rows
    ]
    return table_text([["id", "label", "skip", "rank", "score"], *cells])


def table_text(rows: Iterable[Sequence[object]]) -> str:
    """Return rows as they stand in a file; what would end a row is quoted."""
    text, rows = io.StringIO(), list(rows)
    # By itself, the writer leaves a carriage return without quotes, and that ends a row.
    odd = any("\r" in str(cell) for row in rows for cell in row)
    table = csv.writer(
        text, lineterminator="\n", quoting=csv.QUOTE_ALL if odd else csv.QUOTE_MINIMAL
    )
    table.writerows(rows)
    return text.getvalue()


def _check_header(cells: list[str], path: Path, needed: Sequence[frozenset[str]]) -> list[str]:
    header = [cell.strip().lower() for cell in cells]
    for known in needed:
        if sum(cell in known for cell in header) != 1:
            raise InputError(
                f"{path}, line 1: needs one column named {min(known)!r}; begin with the line "
                "id,label"
            )
    return header
