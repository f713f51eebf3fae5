"""Numbers that others have published, with their source: ``published/NAME.toml``.

A file holds ``[[series]]``: keys of its own say what a series is about (``data``, ``method`` ...),
``at`` the places along its axis, ``values`` the numbers there (``nan`` where there is none),
``source`` where they are printed, ``read_off = true`` that they were read off a figure, and
``uncertain`` the places where that was hard.
"""

from __future__ import annotations

import math
import statistics
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from steepest.core.tables import from_table
from steepest.errors import ConfigError, SteepestError
from steepest.paper.page_parts import Row, TablePart


@dataclass(frozen=True, kw_only=True)
class Series:
    """Published numbers along one axis.

    Attributes:
        about: What they are numbers of: ``data``, ``method`` and whatever else.
        at: Places along the axis, such as shares of labels in per cent.
        values: A number for each place.
        source: Where they are printed.
        read_off: Whether they were read off a figure, so that the last digit is a guess.
        uncertain: Places where even that was hard.
    """

    about: Mapping[str, Any]
    at: tuple[float, ...]
    values: tuple[float, ...]
    source: str
    read_off: bool = False
    uncertain: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if len(self.at) != len(self.values) or not self.source:
            raise ConfigError(f"{dict(self.about)}: one value for each place, and a source")


@dataclass(frozen=True)
class Number:
    """One published number."""

    value: float
    source: str
    read_off: bool = False
    uncertain: bool = False


@dataclass(frozen=True)
class Published:
    """All published numbers of one artefact."""

    series: tuple[Series, ...] = ()

    def find(self, **about: Any) -> tuple[Series, ...]:  # noqa: ANN401
        """Return the series about all of this, in the order of the file."""
        return tuple(s for s in self.series if about.items() <= s.about.items())

    def number(self, at: float, **about: Any) -> Number | None:  # noqa: ANN401
        """Return the first number about all of this at that place, or None."""
        for series in self.find(**about):
            for place, value in zip(series.at, series.values, strict=True):
                if place == at and not math.isnan(value):
                    hard = place in series.uncertain
                    return Number(value, series.source, series.read_off, hard)
        return None


def published_table(text: Published) -> TablePart:
    """Return everything that is published of an artefact, for when there is nothing else."""
    rows = tuple(
        (
            ", ".join(str(value) for value in series.about.values()),
            f"{place:g}",
            f"{value:g}",
            series.source,
        )
        for series in text.series
        for place, value in zip(series.at, series.values, strict=True)
    )
    return TablePart("What is published", ("of", "at", "number", "source"), rows)


@cache
def published(name: str) -> Published:
    """Return the published numbers of an artefact; nothing if there are none.

    Raises:
        ConfigError: If the file is not as described above.
    """
    file = resources.files("steepest.paper") / "published" / f"{name}.toml"
    if not file.is_file():
        return Published()
    try:
        table = tomllib.loads(file.read_text(encoding="utf-8"))
        return Published(tuple(_series(part) for part in table["series"]))
    except (tomllib.TOMLDecodeError, KeyError, TypeError, SteepestError) as error:
        raise ConfigError(f"published/{name}.toml: {error}") from error


def _series(part: Mapping[str, Any]) -> Series:
    own = ("at", "values", "source", "read_off", "uncertain")
    about = {key: value for key, value in part.items() if key not in own}
    return from_table(Series, {"about": about, **{k: part[k] for k in own if k in part}})


def row(
    about: Mapping[str, Any],
    values: Mapping[int, float],
    number: Number | None = None,
    *,
    comparable: bool = True,
) -> Row:
    """Return one row: its subject, our number with its spread, the paper's, and the difference.

    Args:
        about: Columns of its own.
        values: The measurements by seed; may be empty.
        number: The published number.
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
