"""The classes of a project, and labels as texts that can be compared."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence

from steepest.errors import InputError, UnknownNameError

SEPARATOR = ";"
"""Stands between the classes of one image in a table."""

_MOST_LETTERS = 100
_FORBIDDEN = frozenset("/\\" + SEPARATOR)


class ClassList:
    """Names of classes by number and the other way round.

    Args:
        names: In the order of their numbers.
        multi_label: Whether an image may have any number of them.
    """

    def __init__(self, names: Sequence[str], *, multi_label: bool) -> None:
        self.names = tuple(names)
        self.multi_label = multi_label
        self._numbers = {name: number for number, name in enumerate(names)}

    @classmethod
    def load(cls, connection: sqlite3.Connection, *, multi_label: bool) -> ClassList:
        """Read the classes of a project."""
        rows = connection.execute("SELECT name FROM classes ORDER BY number")
        return cls([row["name"] for row in rows], multi_label=multi_label)

    def number_of(self, name: str) -> int:
        """Return a class's number.

        Raises:
            UnknownNameError: If there is no such class.
        """
        if name not in self._numbers:
            raise UnknownNameError("class", str(name), self.names)
        return self._numbers[name]

    def encode(self, labels: Sequence[str]) -> str:
        """Return labels as a text that is equal for equal labels.

        Raises:
            InputError: If a class is not known, or there are too many or none.
        """
        if isinstance(labels, str):
            raise InputError(f"labels are the text {labels!r}; give a list of class names")
        numbers = sorted({self.number_of(name) for name in labels})
        if not self.multi_label and len(numbers) != 1:
            raise InputError(f"{len(numbers)} classes for one image; give exactly one")
        return json.dumps(numbers)

    def decode(self, text: str | None) -> tuple[str, ...] | None:
        """Return the names behind such a text."""
        return None if text is None else tuple(self.names[n] for n in json.loads(text))


def add_class(connection: sqlite3.Connection, name: str) -> None:
    """Add one class behind the others; one that is there already stays.

    Raises:
        InputError: If it cannot be a class's name.
    """
    check_class_name(name)
    known = [row["name"] for row in connection.execute("SELECT name FROM classes")]
    # Folders of classes must stay apart on disks that know no capital letters.
    near = next((k for k in known if k.casefold() == name.casefold() and k != name), None)
    if near is not None:
        raise InputError(f"class {name!r} differs from {near!r} by capital letters alone")
    if name not in known:
        connection.execute("INSERT INTO classes VALUES (?, ?)", (len(known), name))


def check_class_name(name: str) -> None:
    """Refuse names that could not be a folder or a word in a table.

    Raises:
        InputError: Saying why.
    """
    if not name or name != name.strip() or len(name) > _MOST_LETTERS:
        raise InputError(f"class {name!r}: use 1 to {_MOST_LETTERS} letters, no space around")
    if name[0] == "." or not name.isprintable() or _FORBIDDEN & set(name):
        raise InputError(f"class {name!r}: no leading dot, slash, {SEPARATOR!r} or control letter")
