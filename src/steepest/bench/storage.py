"""Results of measurements as JSON files, checked field by field when they are read."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from steepest.core.files import write_atomically
from steepest.core.tables import from_table, to_table
from steepest.errors import InputError
from steepest.experiment.report.tables import text_table

SCHEMA = 1
STOPPED = "stopped before it was measured"
_LONGEST = 200
NONE = "–"


@dataclass(frozen=True)
class Stored:
    """Metadata of every measurement.

    Attributes:
        schema: The form of this table.
        command: The command as typed.
        environment: Versions and hardware.
        device: ``"cpu"`` or ``"cuda"``.
        seed: Decides every draw.
        complete: False after Ctrl-C, and as long as the run goes on.
    """

    schema: int
    command: str
    environment: Mapping[str, Any]
    device: str
    seed: int
    complete: bool

    def save(self, path: Path) -> None:
        """Write the result as JSON.

        Raises:
            InputError: If the file cannot be written.
        """
        text = json.dumps(to_table(self), indent=1, allow_nan=False, ensure_ascii=False)
        write_atomically(path, text + "\n")

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a file written by ``save``.

        Raises:
            InputError: If the file is not of this form.
        """
        try:
            table = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise InputError(f"{path} cannot be read as a bench result ({error})") from error
        if not isinstance(table, dict) or table.get("schema") != SCHEMA:
            raise InputError(f"{path} is no bench result of schema {SCHEMA}: measure again")
        return from_table(cls, table, path.name)


def brief(error: Exception) -> str:
    """Return an error's message in one line of a bearable length."""
    text = " ".join(str(error).split())
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def brief_with_kind(error: Exception) -> str:
    """Return the same after the name of the error's class."""
    return f"{type(error).__name__}: {brief(error)}"


def not_installed(package: str) -> str:
    """Return the note on a contender whose package is missing."""
    return f"{package} is not installed: run pip install 'steepest[bench]'"


def last_line(printed: str) -> str:
    """Return the last line of a failed process's output."""
    return (printed.strip().splitlines() or ["no message"])[-1]


@dataclass(frozen=True)
class Table:
    """One table with notes.

    Attributes:
        conditions: The measurement and its conditions, in one sentence.
        header: Titles of the columns.
        rows: Cells in the order of the header.
        notes: What to know of each row, or why it has no numbers; empty for nothing.
        names: The name of the rows in the notes.
    """

    conditions: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str]
    names: Sequence[str]

    def text(self) -> str:
        """Return the table as plain text."""
        words = zip(self.names, self.notes, strict=True)
        notes = [f"  {name}: {note}" for name, note in words if note]
        body = [text_table(self.header, self.rows)] if self.rows else []
        return "\n".join([self.conditions, *body, *notes])


def show_number(value: float | None, form: str) -> str:
    """Return a number as a cell."""
    return NONE if value is None else format(value, form)


def say_status(status: str, note: str) -> str:
    """Return notes on a measurement, or the reason why there are no numbers."""
    if status == "measured":
        return note
    return f"{status}: {note}" if note else status


def name_place(result: Stored, threads: int) -> str:
    """Return a description of the hardware."""
    if result.device == "cpu":
        return f"cpu, {threads} thread{'s' if threads > 1 else ''}"
    return str(result.environment["device"])
