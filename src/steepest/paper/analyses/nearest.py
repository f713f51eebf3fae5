"""Finds the reading of the paper that comes closest to its published numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from steepest.paper.analyses.agreement import Agreement, Reading


@dataclass(frozen=True)
class Distance:
    """Distance of a reading from the published numbers.

    Attributes:
        reading: Which.
        share: Mean of overlap / K over the cycles that were compared.
        published: Mean of the published numbers / K over the same cycles.
        distance: Mean of their absolute difference.
        cycles: How many cycles were compared.
        sound: Whether every system behind it was positive definite and solved.
        nearest: Whether no other reading is nearer; said afterwards, not chosen beforehand.
    """

    reading: Reading
    share: float
    published: float
    distance: float
    cycles: int
    sound: bool
    nearest: bool


def order_by_distance(cells: Iterable[Agreement], published: Mapping[int, float]) -> list[Distance]:
    """Return all readings, the nearest to the published numbers first.

    Args:
        cells: Agreements of any cycles and seeds.
        published: Shares of K by cycle, between 0 and 1; other cycles are not compared.
    """
    pairs: dict[Reading, list[tuple[float, float, bool]]] = {}
    for cell in cells:
        if cell.overlap is not None and cell.cycle in published:
            pair = (cell.overlap / cell.k, published[cell.cycle], cell.sound)
            pairs.setdefault(cell.reading, []).append(pair)
    found = [
        (reading, _mean([abs(a - b) for a, b, _ in some]), some) for reading, some in pairs.items()
    ]
    found.sort(key=lambda one: one[1])
    least = found[0][1] if found else 0.0
    return [
        Distance(
            reading=reading,
            share=_mean([a for a, _, _ in some]),
            published=_mean([b for _, b, _ in some]),
            distance=distance,
            cycles=len(some),
            sound=all(sound for _, _, sound in some),
            nearest=distance == least,
        )
        for reading, distance, some in found
    ]


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)
