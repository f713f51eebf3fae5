"""The classes of a project, and labels as texts that can be compared."""

from __future__ import annotations

import json
import sqlite3
import unicodedata
from collections.abc import Sequence

from steepest.errors import InputError, UnknownNameError
from steepest.labelling.names import SEPARATORS

_MOST_LETTERS = 100
_FORBIDDEN = ("/", "\\", *SEPARATORS)


class ClassList:
    """Names of classes by number and the other way round.

    Args:
        names: In the order of their numbers.
        multi_label: Whether an image may have any number of them.
    """

    def __init__(self, names: Sequence[str], *, multi_label: bool) -> None:
        self.names = tuple(names)
        self.multi_label = multi_label
        # Systems write the same letter in two ways; both mean the same class.
        self._numbers = {_compose(name): number for number, name in enumerate(names)}
        self._numbers.update({name: number for number, name in enumerate(names)})

    @classmethod
    def load(cls, connection: sqlite3.Connection, *, multi_label: bool) -> ClassList:
        """Read the classes of a project."""
        rows = connection.execute("SELECT name FROM classes ORDER BY number")
        return cls([row["name"] for row in rows], multi_label=multi_label)

    def __contains__(self, name: object) -> bool:
        """Decide whether a name is that of a class."""
        return isinstance(name, str) and (name in self._numbers or _compose(name) in self._numbers)

    def number_of(self, name: str) -> int:
        """Return a class's number.

        Raises:
            UnknownNameError: If the class is unknown.
        """
        number = self._numbers.get(name, self._numbers.get(_compose(name)))
        if number is None:
            raise UnknownNameError("class", str(name), self.names)
        return number

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


def add_class(connection: sqlite3.Connection, name: str) -> bool:
    """Add one class behind the others; one that is there already stays.

    Returns:
        Whether it is new.

    Raises:
        InputError: If it cannot be a class's name.
    """
    known = _list_names(connection)
    if _compose(name) in map(_compose, known):
        return False
    check_class_name(name)
    check_apart(name, known)
    connection.execute("INSERT INTO classes VALUES (?, ?)", (len(known), name))
    return True


def rename_class(connection: sqlite3.Connection, old: str, new: str) -> None:
    """Rename a class: its answers stay, under the new name.

    Raises:
        InputError: If there is no such class, or the name cannot be its own.
    """
    check_class_name(new)
    known = _list_names(connection)
    if old not in known:
        raise UnknownNameError("class", old, known)
    others = [name for name in known if name != old]
    if _compose(new) in map(_compose, others):
        raise InputError(f"class {new!r} is there already; two classes cannot become one")
    check_apart(new, others)
    connection.execute("UPDATE classes SET name = ? WHERE name = ?", (new, old))


def _list_names(connection: sqlite3.Connection) -> list[str]:
    return [row["name"] for row in connection.execute("SELECT name FROM classes")]


def check_apart(name: str, others: Sequence[str]) -> None:
    """Refuse a name that is another's but for capital letters.

    Raises:
        InputError: If it is.
    """
    # Folders of classes must stay apart on disks that know no capital letters.
    folded = _compose(name).casefold()
    near = next((other for other in others if _compose(other).casefold() == folded), None)
    if near is not None:
        raise InputError(f"class {name!r} differs from {near!r} by capital letters alone")


def _compose(name: str) -> str:
    """Return a name with each letter as one sign."""
    return unicodedata.normalize("NFC", name)


def check_class_name(name: str) -> None:
    """Refuse names that could not be a folder or a word in a table.

    Raises:
        InputError: Saying why.
    """
    if not name or name != name.strip() or len(name) > _MOST_LETTERS:
        raise InputError(f"class {name!r}: use 1 to {_MOST_LETTERS} letters, no space around")
    if name[0] == "." or not name.isprintable() or any(sign in name for sign in _FORBIDDEN):
        between = " or ".join(map(repr, SEPARATORS))
        raise InputError(f"class {name!r}: no leading dot, slash, {between}, or control letter")
