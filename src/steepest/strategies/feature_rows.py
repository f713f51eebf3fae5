"""The features of a pool as a table, for strategies that choose by them."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from steepest.core.seeds import SampleId
from steepest.errors import InputError, NonFiniteError
from steepest.strategies.view import PoolView

_SQUARABLE = (1e-15, 1e15)
"""Largest features between these have squares and sums of squares in single precision."""


def feature_rows(pool: PoolView, strategy: str, size: int | None = None) -> Tensor:
    """Return the features of all samples of a pool [N, D] on the CPU.

    Args:
        pool: Candidates, or labelled samples.
        strategy: Its name, for the progress that is shown.
        size: Samples in a batch, by default as the user says.

    Raises:
        NonFiniteError: Naming the first sample whose features are not finite.
    """
    rows = pool.collect(lambda batch: batch.features, f"features for {strategy}", size)["rows"]
    return finite_rows(rows, pool.ids)


def all_feature_rows(pool: PoolView, strategy: str, size: int | None = None) -> tuple[Tensor, int]:
    """Return the features of candidates and then labelled samples, on the pool's device.

    Args:
        pool: The candidates.
        strategy: Its name, for the progress that is shown.
        size: Samples in a batch, by default as the user says.

    Returns:
        Features [N + N_L, D] and N_L.
    """
    rows = feature_rows(pool, strategy, size)
    known = labelled_rows(pool, strategy, rows, size)
    if known is None:
        return rows.to(pool.device), 0
    return torch.cat([rows, known]).to(pool.device), len(known)


def labelled_rows(
    pool: PoolView, strategy: str, rows: Tensor, size: int | None = None
) -> Tensor | None:
    """Return the features of the labelled samples [N_L, D]; None if there are none.

    Args:
        pool: The candidates.
        strategy: Its name, for the progress that is shown.
        rows: The features of the candidates [N, D], whose type and device are taken.
        size: Samples in a batch, by default as the user says.

    Raises:
        InputError: If labelled samples have more or fewer features than candidates.
    """
    if pool.labelled is None or len(pool.labelled) == 0:
        return None
    known = feature_rows(pool.labelled, strategy, size)
    check_width(known, rows, strategy)
    return known.to(rows)


def check_width(known: Tensor, rows: Tensor, strategy: str) -> None:
    """Refuse labelled samples with other features than the candidates.

    Raises:
        InputError: Saying how many each have.
    """
    if known.shape[1] != rows.shape[1]:
        raise InputError(
            f"{strategy}: labelled samples have {known.shape[1]} features and candidates "
            f"{rows.shape[1]}: give the same ones for all"
        )


def finite_rows(rows: Tensor, ids: Sequence[SampleId]) -> Tensor:
    """Return features as a table [N, D] of at least single precision, if all are finite.

    Raises:
        NonFiniteError: Naming the first sample whose features are not.
    """
    rows = rows.flatten(1)
    rows = rows if rows.dtype == torch.float64 else rows.float()
    # The sum of a finite row is finite unless it is astronomic; that is looked at once more.
    if not bool(rows.sum().isfinite()):
        good = rows.isfinite().all(1)
        if not bool(good.all()):
            first = ids[int((~good).nonzero()[0])]
            raise NonFiniteError(
                f"the features of sample {first!r} are NaN or infinite: look at the model's "
                "weights and at that sample"
            )
    return rows.double() if _is_extreme(rows) else rows


def _is_extreme(rows: Tensor) -> bool:
    """Say whether distances would be lost in single precision: all zero, or infinite."""
    if rows.dtype == torch.float64 or rows.numel() == 0:
        return False
    low, high = rows.aminmax()
    largest = max(abs(float(low)), abs(float(high)))
    return largest > 0 and not _SQUARABLE[0] < largest < _SQUARABLE[1]
