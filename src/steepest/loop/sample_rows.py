"""Samples as scikit-learn takes them: rows of an array, a table, a sparse matrix or a list."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from steepest.errors import InputError


def as_rows(samples: Any) -> tuple[Any, int]:  # noqa: ANN401
    """Return samples in a form that has rows, and how many.

    Raises:
        InputError: If there are none.
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
    """Return samples as rows of numbers [N, D], if that is what they are."""
    dense = samples.toarray() if hasattr(samples, "toarray") else samples
    try:
        rows = np.asarray(dense, dtype=np.float64)
    except (TypeError, ValueError):
        return None
    return rows.reshape(len(rows), -1) if rows.ndim > 1 else None
