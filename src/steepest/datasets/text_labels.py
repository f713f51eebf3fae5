"""Classes that are told by their names: labels of text, as tables have them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from steepest.errors import DataError

Texts = npt.NDArray[np.str_]


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
        return np.array([name.decode() for name in array.tolist()], dtype=np.str_)
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
        DataError: If a label is not among the names that are given.
    """
    names = tuple(map(str, classes)) if classes is not None else tuple(sorted(set().union(*parts)))
    numbers = {str(name): number for number, name in enumerate(names)}
    unknown = next((str(name) for part in parts for name in part if name not in numbers), None)
    if unknown is not None:
        raise DataError(f"a label is {unknown!r}, which is not among classes; add it there")
    return [
        np.array([numbers[str(name)] for name in part], dtype=np.int64) for part in parts
    ], tuple(map(str, names))
