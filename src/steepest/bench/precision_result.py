"""File format of a measurement of precisions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from steepest.bench.ranking import Agreement
from steepest.bench.storage import Stored
from steepest.gradnorm import Precision


@dataclass(frozen=True)
class PrecisionMeasurement:
    """One precision.

    Attributes:
        precision: Its name.
        status: How it went.
        note: What to know of it, or why there are no numbers.
        agreement: With strict fp32, over the whole pool.
        true_median_error: Median relative error against fp64, over the checked samples.
        true_largest_error: The largest of them.
    """

    precision: Precision
    status: Literal["measured", "failed", "unfinished"]
    note: str = ""
    agreement: Agreement | None = None
    true_median_error: float | None = None
    true_largest_error: float | None = None


@dataclass(frozen=True)
class PrecisionResult(Stored):
    """A whole run of ``steepest bench precision``.

    Attributes:
        threads: CPU threads.
        preset: The configuration that the model was trained by.
        data: The data set.
        model: The model.
        norm: Which norm was the score.
        labels: Labelled samples that it was trained on.
        epochs: Passes over them.
        test_metrics: How good it is.
        pool: Unlabelled samples that were scored (n).
        top: The share of the pool that counts as chosen.
        checked: Samples compared with fp64.
        precisions: One measurement each.
    """

    threads: int
    preset: str
    data: str
    model: str
    norm: str
    labels: int
    epochs: int
    test_metrics: Mapping[str, Any]
    pool: int
    top: float
    checked: int
    precisions: tuple[PrecisionMeasurement, ...]
