"""Samples and labels as scikit-learn takes them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from steepest.errors import InputError


def as_rows(samples: Any) -> tuple[Any, int]:  # noqa: ANN401
    """Return samples in a form that has rows, and how many.

    Raises:
        InputError: If the pool is empty.
    """
    if hasattr(samples, "tocsr"):
        samples = samples.tocsr()  # Other sparse forms have no rows to take.
    elif not hasattr(samples, "__len__"):
        samples = np.asarray(samples)
    count = int(samples.shape[0]) if hasattr(samples, "shape") else len(samples)
    if count == 0:
        raise InputError("the pool is empty: there is nothing to learn from or to choose")
    return samples, count


def numbers_of(samples: Any) -> npt.NDArray[np.float64] | None:  # noqa: ANN401
    """Return samples as rows of numbers [N, D], if possible."""
    dense = samples.toarray() if hasattr(samples, "toarray") else samples
    try:
        rows = np.asarray(dense, dtype=np.float64)
    except (TypeError, ValueError):
        return None
    return rows.reshape(len(rows), -1) if rows.ndim > 1 else None


Marked = npt.NDArray[np.object_]
"""Labels [N]; None where unlabelled."""


def read_labels(labels: Any, count: int, mark: Any) -> Marked:  # noqa: ANN401
    """Return labels with None for unlabelled samples.

    Args:
        labels: Labels [N], with ``mark``, None or NaN for unlabelled samples.
        count: Number of samples.
        mark: A further value that means unlabelled, if any.

    Raises:
        InputError: If their number differs from that of the samples.
    """
    if labels is None:
        raise InputError(
            "a learner requires y to be passed, but the target y is None: a label or mark for each"
        )
    if isinstance(labels, Tensor):
        labels = labels.numpy(force=True)
    elif hasattr(labels, "to_numpy"):
        labels = labels.to_numpy()
    # A list of texts and a number would become texts alone, and the mark one of them.
    values = np.atleast_1d(np.array(labels, dtype=object if isinstance(labels, list) else None))
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.shape != (count,):
        raise InputError(
            f"labels of shape {list(values.shape)} for {count} samples: one label or mark for each"
        )
    plain = values.tolist()
    if values.dtype.kind in "US":
        _check_texts(plain, mark)
    if math.inf in plain or -math.inf in plain:
        raise InputError("labels contain infinity, which is no class: mark such samples by NaN")
    _check_one_mark(plain, mark)
    found = np.empty(count, dtype=object)
    found[:] = [None if is_unlabelled(label, mark) else label for label in plain]
    return found


def is_unlabelled(label: Any, mark: Any) -> bool:  # noqa: ANN401
    """Return whether a value means that a sample has no label."""
    if label is None or label != label:  # noqa: PLR0124 - NaN is not itself
        return True
    if mark is None or isinstance(label, str) != isinstance(mark, str):
        return False
    return bool(label == mark)


def check_rows(indices: Any, count: int) -> npt.NDArray[np.intp]:  # noqa: ANN401
    """Return rows of a pool [K] as numbers.

    Raises:
        InputError: If they are none, or one is there twice.
    """
    rows = np.atleast_1d(np.asarray(indices))
    if rows.size == 0:
        return np.empty(0, dtype=np.intp)  # An empty list is one of floats to numpy.
    if rows.dtype.kind not in "iu" or rows.ndim != 1 or len(set(rows.tolist())) != len(rows):
        raise InputError("indices must be distinct row numbers, and no mask")
    if not 0 <= rows.min() <= rows.max() < count:
        raise InputError(f"indices must be rows of the pool, 0 to {count - 1}")
    return rows.astype(np.intp)


def check_kinds(labels: Marked) -> Marked:
    """Refuse texts beside numbers: as an array, all of them would become texts."""
    texts = {isinstance(label, str) for label in labels if label is not None}
    if len(texts) > 1:
        raise InputError("some labels are texts and others numbers: use one kind")
    return labels


def _check_texts(labels: list[Any], mark: Any) -> None:  # noqa: ANN401
    """Refuse a mark that numpy made a text of, as it does with numbers beside texts."""
    marks = [math.nan] if mark is None or isinstance(mark, str) else [math.nan, mark]
    lost = next((m for m in marks if str(m) in labels and str(m) != mark), None)
    if lost is not None:
        raise InputError(
            f"the mark {lost!r} has become the text {str(lost)!r}: give labels of dtype object, "
            f"or unlabelled={str(lost)!r}"
        )


def _check_one_mark(labels: list[Any], mark: Any) -> None:  # noqa: ANN401
    """Refuse a number as a mark beside None or NaN: it could well be a class."""
    if mark is None or isinstance(mark, str):
        return
    without = [label for label in labels if is_unlabelled(label, mark)]
    marked = sum(1 for label in without if not is_unlabelled(label, None))
    if 0 < marked < len(without):
        raise InputError(
            f"some labels are {mark!r} and others None or NaN, and all of them would stand for no "
            f"label: if {mark!r} is a class, say unlabelled=None, else mark all in one way"
        )
