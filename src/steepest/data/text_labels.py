"""Classes that are told by their names: labels of text, as tables have them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from steepest.errors import DataError

Texts = npt.NDArray[np.str_]

_NO_LABEL = ("", "nan")


def find_texts(labels: object) -> Texts | None:
    """Return labels that are names of classes [N], None if they are something else.

    Raises:
        DataError: If some are text and others are not.
    """
    if labels is None or isinstance(labels, Tensor):
        return None
    array: npt.NDArray[Any] = np.asarray(labels)
    if array.ndim != 1 or array.dtype.kind not in "USO":
        return None
    if array.dtype.kind == "S":
        try:
            return np.array([name.decode() for name in array.tolist()], dtype=np.str_)
        except UnicodeDecodeError as error:
            raise DataError("a label is not text in UTF-8; save text instead of bytes") from error
    strange = [label for label in array.tolist() if not isinstance(label, str)]
    if array.dtype.kind == "O" and strange:
        if len(strange) == array.size:
            return None
        raise DataError(
            f"labels are text, but one is {strange[0]!r}; leave out samples that have none"
        )
    return array.astype(np.str_)


def number_texts(
    parts: Sequence[Texts], classes: Sequence[str] | None
) -> tuple[list[npt.NDArray[np.int64]], tuple[str, ...]]:
    """Return labels as numbers, and the names that they count.

    Args:
        parts: Names of classes, each [N].
        classes: All names in their order; by default those that occur, sorted.

    Raises:
        DataError: If a label is not among the names that are given, or looks like a slip where
            none are.
    """
    if classes is None:
        names = tuple(sorted(str(name) for name in set().union(*parts)))
        _refuse_slips(names)
    else:
        names = tuple(map(str, classes))
    numbers = {str(name): number for number, name in enumerate(names)}
    unknown = next((str(name) for part in parts for name in part if name not in numbers), None)
    if unknown is not None:
        raise DataError(f"a label is {unknown!r}, which is not among classes; add it there")
    return [
        np.array([numbers[str(name)] for name in part], dtype=np.int64) for part in parts
    ], tuple(map(str, names))


def _refuse_slips(names: Sequence[str]) -> None:
    """Refuse names that tables have where there is no label, or that differ by blanks alone."""
    known: dict[str, str] = {}
    for name in names:
        bare = name.strip()
        if bare in _NO_LABEL:
            raise DataError(
                f"a label is {name!r}; leave out samples that have none, or name it in classes"
            )
        if bare in known:
            raise DataError(
                f"labels {known[bare]!r} and {name!r} differ by blanks alone; write them alike, or "
                "name both in classes"
            )
        known[bare] = name
