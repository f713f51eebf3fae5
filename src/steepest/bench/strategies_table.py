"""A measurement of strategies as a table."""

from __future__ import annotations

from steepest.bench.growth import fit_exponent
from steepest.bench.strategies_result import StrategiesResult, StrategyMeasurement
from steepest.bench.table import NONE, Table, name_place, say_status

_WORTH_TELLING_SECONDS = 0.05


def strategies_table(result: StrategiesResult) -> Table:
    """Return one row for each strategy and way, with two columns for each pool."""
    pools = sorted({m.pool for m in result.measurements})
    titles = (title for pool in pools for title in (f"{pool:,}: s", "MiB"))
    ways: dict[tuple[str, str], dict[int, StrategyMeasurement]] = {}
    for m in result.measurements:
        ways.setdefault((m.strategy, m.kind), {})[m.pool] = m
    return Table(
        _conditions(result),
        ("strategy", "way", *titles, "exponent"),
        [[*way, *_cells(found, pools), _exponent(found)] for way, found in ways.items()],
        [_notes(found) for found in ways.values()],
        [name if kind == "ours" else f"{name} ({kind})" for name, kind in ways],
    )


def _conditions(result: StrategiesResult) -> str:
    place = name_place(result, result.threads)
    if result.device == "cpu" and result.threads == 1:
        place += ", by core time"
    return (
        f"{result.k:,} samples chosen, {result.labelled:,} labelled, {result.features} features, "
        f"{result.classes} classes; {place}; one trial each in a process of its own; "
        f"seed {result.seed}; a + b: seconds of preparing and of choosing"
    )


def _notes(found: dict[int, StrategyMeasurement]) -> str:
    picks = [f"{pool:,}: {m.picks}" for pool, m in found.items() if m.picks is not None]
    return "; ".join(dict.fromkeys(filter(None, [*map(_note, found.values()), *picks])))


def _note(m: StrategyMeasurement) -> str:
    told = say_status(m.status, m.note)
    return told if m.status in ("measured", "absent") else f"{m.pool:,}: {told}"


def _cells(found: dict[int, StrategyMeasurement], pools: list[int]) -> list[str]:
    return [cell for pool in pools for cell in _pair(found.get(pool))]


def _pair(m: StrategyMeasurement | None) -> tuple[str, str]:
    if m is None or m.choose_seconds is None or m.peak_mib is None:
        return (NONE if m is None else m.status, NONE)
    seconds = f"{m.choose_seconds:.3g}"
    if m.prepare_seconds is not None and m.prepare_seconds >= _WORTH_TELLING_SECONDS:
        seconds = f"{m.prepare_seconds:.3g} + {seconds}"
    return seconds, f"{m.peak_mib:,.0f}"


def _exponent(found: dict[int, StrategyMeasurement]) -> str:
    """Return the slope of log seconds of choosing over log samples, if there are two pools."""
    pairs = [(pool, m.choose_seconds) for pool, m in found.items() if m.choose_seconds]
    if len(pairs) < 2:
        return NONE
    sizes, seconds = zip(*pairs, strict=True)
    return f"{fit_exponent(sizes, seconds):.2f}"
