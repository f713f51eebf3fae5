"""The features of a pool as a table, for strategies that choose by them."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from steepest.errors import NonFiniteError
from steepest.seeds import SampleId
from steepest.strategies.view import PoolView


def feature_rows(pool: PoolView, strategy: str) -> Tensor:
    """Return the features of all samples of a pool [N, D] on the CPU.

    Args:
        pool: Candidates, or labelled samples.
        strategy: Its name, for the progress that is shown.

    Raises:
        NonFiniteError: Naming the first sample whose features are not finite.
    """
    rows = pool.collect(lambda batch: batch.features, f"features for {strategy}")["rows"]
    return finite_rows(rows, pool.ids)


def all_feature_rows(pool: PoolView, strategy: str) -> tuple[Tensor, int]:
    """Return the features of candidates and then labelled samples, on the pool's device.

    Args:
        pool: The candidates.
        strategy: Its name, for the progress that is shown.

    Returns:
        Features [N + N_L, D] and N_L.
    """
    rows = feature_rows(pool, strategy)
    if pool.labelled is None or len(pool.labelled) == 0:
        return rows.to(pool.device), 0
    known = feature_rows(pool.labelled, strategy)
    return torch.cat([rows, known.to(rows)]).to(pool.device), len(known)


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
    return rows
