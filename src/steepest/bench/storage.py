"""Results of measurements as JSON files, checked field by field when they are read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from steepest.core.files import write_atomically
from steepest.core.tables import from_table, to_table
from steepest.errors import InputError

SCHEMA = 1


@dataclass(frozen=True)
class Stored:
    """Metadata of every measurement.

    Attributes:
        schema: The form of this table.
        command: What was typed.
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
        """Read what ``save`` wrote.

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
