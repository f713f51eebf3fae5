"""The answer of a strategy: samples in order, with their scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from torch import Tensor

from steepest.errors import InputError, NonFiniteError


@dataclass(frozen=True, eq=False)
class Choice:
    """k samples of a pool, the most wanted first.

    Attributes:
        positions: Positions among the candidates [k]; distinct.
        scores: How much each was wanted when it was taken [k].
        values: The scores of all candidates [N], if the strategy gives one to each.
        said: The strategy's comment on its choice, in a sentence with a full stop; it begins the
            verdict on the picks.
    """

    positions: npt.NDArray[np.intp]
    scores: npt.NDArray[np.float64]
    values: npt.NDArray[np.float64] | None = None
    said: str = ""


def checked(choice: Choice, candidates: int, k: int, strategy: str) -> Choice:
    """Return a choice that keeps the contract.

    Raises:
        InputError: If it is not k distinct candidates with a score each.
        NonFiniteError: If a score is NaN or infinite.
    """
    if not isinstance(choice, Choice):
        raise InputError(
            f"strategy {strategy!r} returned a {type(choice).__name__} from choose: return a "
            "steepest.strategies.Choice of positions and scores"
        )
    found = _to_array(choice.positions)
    scores = _to_array(choice.scores).astype(np.float64)
    values = None if choice.values is None else _to_array(choice.values).astype(np.float64)
    if problem := _find_problem(found, candidates, k):
        raise InputError(
            f"strategy {strategy!r} {problem}: choose {k} distinct positions of 0 to "
            f"{candidates - 1}"
        )
    for name, row, count in (("scores", scores, k), ("values", values, candidates)):
        if row is None:
            continue
        if row.shape != (count,):
            raise InputError(
                f"strategy {strategy!r} returned {name} {list(row.shape)} from choose: return "
                f"[{count}], one for each of {'k' if row is scores else 'all'} samples"
            )
        if not np.isfinite(row).all():
            raise NonFiniteError(f"strategy {strategy!r} returned {name} that are not finite")
    return Choice(found.astype(np.intp), scores, values, choice.said)


def _to_array(row: Any) -> npt.NDArray[Any]:  # noqa: ANN401 - a list or tensor will do
    return np.asarray(row.detach().cpu() if isinstance(row, Tensor) else row)


def _find_problem(positions: npt.NDArray[Any], candidates: int, k: int) -> str:
    """Say what keeps positions from being k distinct candidates, or nothing."""
    if positions.dtype.kind not in "iu":
        return f"chose positions of type {positions.dtype}, not whole numbers"
    if positions.shape != (k,):
        return f"chose positions {list(positions.shape)} where [{k}] are due"
    if positions.min() < 0 or positions.max() >= candidates:
        return "chose a position that is none"
    return "" if len(np.unique(positions)) == k else "chose a sample twice"


def in_order(positions: Sequence[int], scores: Sequence[float]) -> Choice:
    """Return a choice from plain lists."""
    return Choice(np.asarray(positions, dtype=np.intp), np.asarray(scores, dtype=np.float64))
