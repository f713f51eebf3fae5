"""The subject of a project, and its labels as texts in the store and as values outside."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from steepest.core.parsing import parse_json
from steepest.core.tables import from_table
from steepest.errors import DataError, InputError, UnknownNameError, first_line
from steepest.labelling.project.classes import add_class
from steepest.labelling.project.settings import Settings, load_settings, save_settings
from steepest.labelling.project.store import Store
from steepest.pool.values import Label

_MOST_NUMBERED = 1000
"""Whole numbers below this are classes of that number; larger ones would need as many names."""


@dataclass(frozen=True)
class About:
    """Properties of a project that the page cannot change.

    Attributes:
        task: The question about each sample.
        numbered: Whether ids are whole numbers.
        named: Whether labels are given back as names of classes; None until the first one.
        classes: ``"fixed"``: a label names one of them. ``"growing"``: new labels add classes.
            ``"free"``: labels that cannot be classes are kept as they are, too.
        pool: The location of the samples; empty if that is not known.
        array: The identity of the array of the samples.
        key: Identifies the samples and classes on a server; empty until needed.
    """

    task: Literal["classification", "multi-label", "segmentation"] = "classification"
    numbered: bool = False
    named: bool | None = False
    classes: Literal["fixed", "growing", "free"] = "fixed"
    pool: str = ""
    array: Mapping[str, Any] | None = None
    key: str = ""


def load_about(connection: sqlite3.Connection) -> About:
    """Return the subject of a project; not set by the page.

    Raises:
        DataError: If the content of the file is damaged.
    """
    rows = connection.execute("SELECT name, value FROM project").fetchall()
    try:
        return from_table(About, {row["name"]: parse_json(row["value"]) for row in rows})
    except (ValueError, InputError) as error:
        file = connection.execute("PRAGMA database_list").fetchone()["file"]
        raise DataError(
            f"{file}: what it is of is damaged ({first_line(error)}): restore it from a copy"
        ) from error


def save_about(connection: sqlite3.Connection, about: About) -> None:
    """Overwrite a project's metadata."""
    connection.executemany(
        "INSERT OR REPLACE INTO project VALUES (?, ?)",
        [(name, json.dumps(value)) for name, value in asdict(about).items()],
    )


def list_classes(connection: sqlite3.Connection) -> tuple[str, ...]:
    """Return the names of the classes in the order of their numbers."""
    return tuple(
        row["name"] for row in connection.execute("SELECT name FROM classes ORDER BY number")
    )


def keep_to_classes(store: Store) -> None:
    """Take no labels from now on that are no classes, as pages and files know classes alone.

    Raises:
        InputError: If such labels already exist.
    """
    with store.reading() as connection:
        free = load_about(connection).classes == "free"
    if free:
        with store.writing() as connection:
            _close_classes(connection)


def _close_classes(connection: sqlite3.Connection) -> None:
    about = load_about(connection)
    odd = connection.execute(
        """SELECT i.id, i.labels FROM images i
        WHERE i.labels IS NOT NULL AND substr(i.labels, 1, 1) <> '['"""
    ).fetchone()
    if odd is not None:
        raise InputError(
            f"label {odd['labels']} of sample {odd['id']!r} is no class: this project can be used "
            "from Python alone"
        )
    save_about(connection, replace(about, classes="growing"))


class LabelForms:
    """Turns labels into texts of the store that are equal for equal labels, and back.

    A list of numbers means classes; anything else is the label itself, in JSON.

    Args:
        connection: To the project's file; labels that add classes need a transaction.
        exact: Whether several classes keep the order in which they were named.
    """

    def __init__(self, connection: sqlite3.Connection, *, exact: bool = False) -> None:
        self._connection, self._exact = connection, exact
        self.settings = load_settings(connection) or Settings()
        self.about = load_about(connection)
        self.names = list_classes(connection)

    def decode(self, text: str) -> Label:
        """Return the label encoded by a text."""
        value = json.loads(text)
        if isinstance(value, dict):
            found: list[int] = value["list"]
            return found
        if not isinstance(value, list) or self.settings.multi_label:
            label: Label = value
            return label
        return self.names[value[0]] if self.about.named else int(value[0])

    def encode(self, label: Label) -> str:
        """Return the text that encodes a label; may add classes.

        Raises:
            InputError: If it is no class where classes are requested.
        """
        if self.about.task == "segmentation":
            return json.dumps(label)
        if self.about.classes != "fixed":
            self._grow(label)
        numbers = self._find(label)
        if numbers is not None:
            return json.dumps(numbers)
        if self.about.classes == "free":
            return json.dumps({"list": label} if isinstance(label, list) else label)
        raise self._refusal(label)

    def normal(self, label: Label) -> Label:
        """Return a label as it would be given back; changes nothing.

        Raises:
            InputError: If it is none of the classes where there will be no others.
        """
        if self.about.task == "segmentation":
            return label
        numbers = self._find(label)
        if numbers is None and self.about.classes == "fixed":
            raise self._refusal(label)
        return label if numbers is None else self.decode(json.dumps(numbers))

    def _find(self, label: Label) -> list[int] | None:
        """Return the numbers of the classes that a label names; None if it names none."""
        if isinstance(label, str):
            known = label in self.names and (self.about.named or self.about.classes == "fixed")
            return [self.names.index(label)] if known else None
        if self.about.named:
            return None
        several = label if isinstance(label, list) else [label]
        if isinstance(label, list) != self.settings.multi_label:
            return None
        if not all(0 <= number < len(self.names) for number in several):
            return None
        ordered = sorted(set(several))
        return None if self._exact and ordered != several else ordered

    def _grow(self, label: Label) -> None:
        """Add the classes that a label names and that are not there."""
        if self.about.named is None:
            self._decide(label)
        if isinstance(label, str):
            if self.about.named and label not in self.names:
                self._add(label)
            return
        several = label if isinstance(label, list) else [label]
        least, most = min(several, default=0), max(several, default=-1)
        if not self.about.named and least >= 0 and most < _MOST_NUMBERED:
            for number in range(len(self.names), most + 1):
                self._add(str(number))

    def _decide(self, label: Label) -> None:
        """Let the first label say what labels are."""
        self.about = replace(self.about, named=isinstance(label, str))
        if isinstance(label, list):
            self.about = replace(self.about, task="multi-label")
            self.settings = replace(self.settings, multi_label=True)
            save_settings(self._connection, self.settings)
        save_about(self._connection, self.about)

    def _add(self, name: str) -> None:
        try:
            add_class(self._connection, name)
        except InputError:
            return  # It is kept as it is, or refused.
        self.names = list_classes(self._connection)

    def _refusal(self, label: Label) -> InputError:
        if isinstance(label, str) and self.about.classes == "fixed":
            return UnknownNameError("class", label, self.names)
        last = len(self.names) - 1
        known = "name one of " + ", ".join(self.names) if self.about.named else f"use 0 to {last}"
        several = ", in a list" if self.settings.multi_label else ""
        return InputError(f"label {label!r} is none of the project's classes: {known}{several}")
