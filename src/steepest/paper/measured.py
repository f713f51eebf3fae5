"""Measurements of several seeds beside a published number."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from typing import Any

from steepest.paper.parts import Row
from steepest.paper.publication import Number


def row(
    about: Mapping[str, Any],
    values: Mapping[int, float],
    number: Number | None = None,
    *,
    comparable: bool = True,
) -> Row:
    """Return one row: what it is about, ours with its spread, the paper's, and the difference.

    Args:
        about: Columns of its own.
        values: What was measured, by seed; may be empty.
        number: What is published.
        comparable: Whether ours was measured on the data that the paper's was.
    """
    measured = list(values.values())
    ours = statistics.fmean(measured) if measured else None
    paper = None if number is None else number.value
    difference = None if ours is None or paper is None or not comparable else ours - paper
    return {
        **about,
        "ours": ours,
        "sd": statistics.stdev(measured) if len(measured) > 1 else None,
        "n": len(measured),
        "seeds": sorted(values),
        "paper": paper,
        "difference": difference,
        "source": "" if number is None else number.source,
    }
