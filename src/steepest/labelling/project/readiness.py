"""Checks whether the labels so far suffice for a model, and reports what is missing."""

from __future__ import annotations

import sqlite3

from steepest.labelling.project.classes import ClassList
from steepest.labelling.project.following import LEARNABLE

# Two different ones are enough to know.
_DIFFERENT = f"""SELECT DISTINCT labels FROM ({LEARNABLE})
    WHERE id IS NOT NULL AND held_out = 0 LIMIT 2"""  # noqa: S608


def why_no_model(connection: sqlite3.Connection, *, multi_label: bool) -> str | None:
    """Say in one line why no model can be trained; None if one can.

    Args:
        connection: To the project's file.
        multi_label: Whether an image may have any number of classes.
    """
    classes = ClassList.load(connection, multi_label=multi_label)
    if len(classes.names) < 2:
        return "a model needs two classes to tell apart: add one under Files"
    found = [classes.decode(row["labels"]) for row in connection.execute(_DIFFERENT)]
    if len(found) >= 2:
        return None
    # Images held out for tests are labelled too, and do not count.
    if not found:
        return "a model needs labels of two classes; none that it may learn from is there yet"
    said = ", ".join(found[0] or ()) or "none of them"
    return f"a model needs labels of two classes; all that it may learn from are: {said}"
