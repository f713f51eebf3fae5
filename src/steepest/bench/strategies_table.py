"""A measurement of strategies as plain text."""

from __future__ import annotations

from steepest.bench.growth import fit_exponent
from steepest.bench.strategies_result import StrategiesResult, StrategyMeasurement
from steepest.report.text_table import text_table

_NONE = "–"
_WORTH_TELLING_SECONDS = 0.05


def describe_strategies(result: StrategiesResult) -> str:
    """Return one table, with what a reader must know around it."""
    rows = rows_of(result)
    notes = [
        f"  {row[0]}{'' if row[1] == 'ours' else f' ({row[1]})'}: {note}"
        for row, note in zip(rows, notes_of(result), strict=True)
        if note
    ]
    return "\n".join([conditions(result), text_table(header(result), rows), *notes])


def conditions(result: StrategiesResult) -> str:
    """Return in one sentence what was chosen from, and where."""
    place = result.environment["device"]
    if result.device == "cpu":
        place = (
            "cpu, 1 thread, by core time"
            if result.threads == 1
            else f"cpu, {result.threads} threads"
        )
    return (
        f"{result.k:,} samples chosen, {result.labelled:,} labelled, {result.features} features, "
        f"{result.classes} classes; {place}; one trial each in a process of its own; "
        f"seed {result.seed}; a + b: seconds of preparing and of choosing"
    )


def header(result: StrategiesResult) -> tuple[str, ...]:
    """Return the titles of the columns: two for each pool."""
    pools = (f"{pool:,}" for pool in pools_of(result))
    return ("strategy", "way", *(t for p in pools for t in (f"{p}: s", "MiB")), "exponent")


def pools_of(result: StrategiesResult) -> list[int]:
    """Return the sizes of pools that were measured."""
    return sorted({m.pool for m in result.measurements})


def rows_of(result: StrategiesResult) -> list[list[str]]:
    """Return the cells of the table, one row for each strategy and way."""
    rows = []
    for (strategy, kind), found in _by_way(result).items():
        cells = [_cells(found.get(pool)) for pool in pools_of(result)]
        rows.append([strategy, kind, *(cell for pair in cells for cell in pair), _exponent(found)])
    return rows


def notes_of(result: StrategiesResult) -> list[str]:
    """Return for each row what to know of its numbers, or why there are none."""
    return [
        "; ".join(dict.fromkeys(filter(None, map(_note, found.values()))))
        for found in _by_way(result).values()
    ]


def _by_way(result: StrategiesResult) -> dict[tuple[str, str], dict[int, StrategyMeasurement]]:
    ways: dict[tuple[str, str], dict[int, StrategyMeasurement]] = {}
    for m in result.measurements:
        ways.setdefault((m.strategy, m.kind), {})[m.pool] = m
    return ways


def _note(m: StrategyMeasurement) -> str:
    if m.status == "measured":
        return m.note
    return f"{m.pool:,}: {m.status}{': ' if m.note else ''}{m.note}"


def _cells(m: StrategyMeasurement | None) -> tuple[str, str]:
    if m is None or m.choose_seconds is None or m.peak_mib is None:
        return (_NONE if m is None else m.status, _NONE)
    seconds = f"{m.choose_seconds:.3g}"
    if m.prepare_seconds is not None and m.prepare_seconds >= _WORTH_TELLING_SECONDS:
        seconds = f"{m.prepare_seconds:.3g} + {seconds}"
    return seconds, f"{m.peak_mib:,.0f}"


def _exponent(found: dict[int, StrategyMeasurement]) -> str:
    """Return the slope of log seconds of choosing over log samples, if there are two pools."""
    pairs = [(pool, m.choose_seconds) for pool, m in found.items() if m.choose_seconds]
    if len(pairs) < 2:
        return _NONE
    sizes, seconds = zip(*pairs, strict=True)
    return f"{fit_exponent(sizes, seconds):.2f}"
