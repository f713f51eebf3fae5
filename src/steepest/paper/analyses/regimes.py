"""Correlation of entropy-gradnorm with uncertainty over the course of training."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from steepest.errors import InputError
from steepest.experiment.record import Record
from steepest.selecting.regime import INVERTED


@dataclass(frozen=True)
class RegimePoint:
    """One model at one time.

    Attributes:
        accuracy: On the test set.
        entropy_ratio: Mean entropy of its predictions over log C.
        rank_correlation: Spearman's, of entropy-gradnorm with entropy, over the candidates.
        where: Which model it was.
    """

    accuracy: float
    entropy_ratio: float
    rank_correlation: float
    where: str


@dataclass(frozen=True)
class RegimeBucket:
    """All models of about the same accuracy.

    Attributes:
        low: Accuracy from which on.
        high: Accuracy below which; the last bucket includes 1.
        models: How many.
        mean: Mean rank correlation.
        lowest: The lowest one.
        highest: The highest one.
        inverted: How many rank the most uncertain samples last.
        entropy_ratio: Mean of the models' entropy ratios.
    """

    low: float
    high: float
    models: int
    mean: float
    lowest: float
    highest: float
    inverted: int
    entropy_ratio: float


def regime_points(
    records: Iterable[Record], where: str, strategy: str = "entropy-gradnorm"
) -> list[RegimePoint]:
    """Return what the records of a run tell of the regime; nothing has to be computed.

    Args:
        records: Of one run.
        where: What the run is called.
        strategy: Whose rank correlation is meant; records of others are passed over.
    """
    found = []
    for record in records:
        regime, accuracy = record.regime, record.metrics.get("accuracy")
        if record.strategy != strategy or regime is None or regime.rank_correlation is None:
            continue
        if isinstance(accuracy, int | float):
            name = f"{where} cycle {record.cycle}"
            point = RegimePoint(
                float(accuracy), regime.entropy_ratio, regime.rank_correlation, name
            )
            found.append(point)
    return found


def bucket_regimes(points: Iterable[RegimePoint], width: float = 0.1) -> list[RegimeBucket]:
    """Gather models by accuracy; buckets without a model are left out.

    Args:
        points: Any number of models.
        width: Of a bucket, such that a whole number of them makes 1.

    Raises:
        InputError: If the width does not fit.
    """
    count = round(1 / width) if width > 0 else 0
    if count < 1 or abs(count * width - 1) > 1e-9:
        raise InputError(f"buckets of width {width} do not make 1: use 0.1 or 0.05")
    members: dict[int, list[RegimePoint]] = {}
    for point in points:
        # 0.3 / 0.1 is a little less than 3.
        place = min(count - 1, int(point.accuracy * count + 1e-9))
        members.setdefault(place, []).append(point)
    return [
        _bucket(place / count, (place + 1) / count, some) for place, some in sorted(members.items())
    ]


def _bucket(low: float, high: float, points: list[RegimePoint]) -> RegimeBucket:
    values = np.array([point.rank_correlation for point in points])
    return RegimeBucket(
        low=low,
        high=high,
        models=len(points),
        mean=float(values.mean()),
        lowest=float(values.min()),
        highest=float(values.max()),
        inverted=int((values <= INVERTED).sum()),
        entropy_ratio=float(np.mean([point.entropy_ratio for point in points])),
    )
