"""A measurement as plain text: what all of them have in common."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from steepest.bench.storage import Stored
from steepest.experiment.report.text_table import text_table

NONE = "–"


@dataclass(frozen=True)
class Table:
    """One table, with what a reader must know around it.

    Attributes:
        conditions: What was measured and where, in one sentence.
        header: Titles of the columns.
        rows: Cells in the order of the header.
        notes: What to know of each row, or why it has no numbers; empty for nothing.
        names: What the notes call the rows.
    """

    conditions: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str]
    names: Sequence[str]

    def text(self) -> str:
        """Return the table as plain text."""
        told = zip(self.names, self.notes, strict=True)
        notes = [f"  {name}: {note}" for name, note in told if note]
        body = [text_table(self.header, self.rows)] if self.rows else []
        return "\n".join([self.conditions, *body, *notes])


def show_number(value: float | None, form: str) -> str:
    """Return a number as a cell."""
    return NONE if value is None else format(value, form)


def say_status(status: str, note: str) -> str:
    """Return what to know of a measurement, or why there are no numbers."""
    if status == "measured":
        return note
    return f"{status}: {note}" if note else status


def name_place(result: Stored, threads: int) -> str:
    """Return what did the work."""
    if result.device == "cpu":
        return f"cpu, {threads} thread{'s' if threads > 1 else ''}"
    return str(result.environment["device"])
