"""Results of measurements as JSON files, checked field by field when they are read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TypeVar

from steepest.errors import InputError
from steepest.files import write_atomically
from steepest.tables import from_table, to_table

T = TypeVar("T")


class Stored:
    """A dataclass that can be written to a file."""

    def save(self, path: Path) -> None:
        """Write the result as JSON.

        Raises:
            InputError: If the file cannot be written.
        """
        text = json.dumps(to_table(self), indent=1, allow_nan=False, ensure_ascii=False)
        write_atomically(path, text + "\n")


def load_result(cls: type[T], path: Path, schema: int) -> T:
    """Read what ``Stored.save`` wrote.

    Args:
        cls: The dataclass that was saved.
        path: The file.
        schema: The form that it must have.

    Raises:
        InputError: If the file is not of this form.
    """
    try:
        table = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read as a bench result ({error})") from error
    if not isinstance(table, dict) or table.get("schema") != schema:
        raise InputError(f"{path} is no bench result of schema {schema}: measure again")
    return from_table(cls, table, path.name)
