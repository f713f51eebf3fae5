"""Rows with named columns, as Hugging Face's data sets have them, read as pairs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from steepest.errors import DataError, InputError, UnknownNameError

Rows = Any
"""A length, dicts by row, columns by name, and maybe ``features`` and ``column_names``."""


class NamedRows:
    """The items (image, label) of a data set whose items are dicts.

    Args:
        rows: The data set.
        image: The column of images.
        label: The column of labels: numbers, names, lists of either, or label maps.

    Attributes:
        targets: The labels as numbers [N] or [N, K], once they are numbered.

    Raises:
        InputError: If the data set has no length, or no such columns.
    """

    def __init__(self, rows: Rows, image: str, label: str) -> None:
        if not hasattr(rows, "__len__") or not hasattr(rows, "__getitem__"):
            raise InputError(
                f"a data set of type {type(rows).__name__} has no length and rows: load it with "
                "streaming=False"
            )
        names = getattr(rows, "column_names", None) or getattr(rows, "features", None) or ()
        for column in (image, label):
            if names and column not in names:
                raise UnknownNameError("column", column, list(names))
        self._rows = rows
        self._image = image
        self._label = label
        self.targets: npt.NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, row: int) -> tuple[Any, Any]:
        """Read one row."""
        item = self._rows[row]
        label = item[self._label] if self.targets is None else self.targets[row]
        return item[self._image], label

    @property
    def classes(self) -> tuple[str, ...] | None:
        """The classes' names, where the data set says them."""
        feature = (getattr(self._rows, "features", None) or {}).get(self._label)
        names = getattr(feature, "names", None)
        if names is None:
            names = getattr(getattr(feature, "feature", None), "names", None)
        return None if names is None else tuple(str(name) for name in names)

    def column(self) -> list[Any]:
        """Return the column of labels, no image decoded."""
        return list(self._rows[self._label])


def number_labels(column: Sequence[Any], classes: Sequence[str]) -> npt.NDArray[np.int64]:
    """Return labels as numbers [N], or, of lists of labels, which classes are there [N, K].

    Args:
        column: Numbers or names of classes, or lists of them.
        classes: The classes' names [K].

    Raises:
        DataError: If a label is no class.
    """
    numbers = {name: number for number, name in enumerate(classes)}

    def find(label: object) -> int:
        number = numbers.get(label, -1) if isinstance(label, str) else label
        if not isinstance(number, (int, np.integer)) or not 0 <= number < len(classes):
            raise DataError(f"label {label!r} is none of the {len(classes)} classes")
        return int(number)

    if not _has_lists(column):
        return np.array([find(label) for label in column], dtype=np.int64)
    present = np.zeros((len(column), len(classes)), dtype=np.int64)
    for row, labels in enumerate(column):
        present[row, [find(label) for label in labels]] = 1
    return present


def name_classes(column: Sequence[Any]) -> tuple[str, ...]:
    """Return the classes of a column of labels: the names in it, or numbers up to the largest."""
    found = {label for labels in column for label in labels} if _has_lists(column) else set(column)
    if any(isinstance(label, str) for label in found):
        return tuple(sorted(label for label in found if isinstance(label, str)))
    whole = [int(label) for label in found if isinstance(label, (int, np.integer))]
    return tuple(str(number) for number in range(max(whole, default=-1) + 1))


def _has_lists(column: Sequence[Any]) -> bool:
    return bool(column) and isinstance(column[0], (list, tuple, np.ndarray))
