"""A measurement of strategies as plain text."""

from __future__ import annotations

from steepest.bench.growth import fit_exponent
from steepest.bench.strategies_result import StrategiesResult, StrategyMeasurement
from steepest.report.text_table import text_table

_NONE = "–"


def describe_strategies(result: StrategiesResult) -> str:
    """Return one table, with what a reader must know around it."""
    notes = list(dict.fromkeys(filter(None, map(note_of, result.measurements))))
    return "\n".join([conditions(result), text_table(header(result), rows_of(result)), *notes])


def conditions(result: StrategiesResult) -> str:
    """Return in one sentence what was chosen from, and where."""
    place = result.environment["device"]
    if result.device == "cpu":
        place = f"cpu, {result.threads} thread{'s' if result.threads > 1 else ''}"
    return (
        f"{result.k:,} samples chosen, {result.labelled:,} labelled, {result.features} features, "
        f"{result.classes} classes; {place}; one trial each in a process of its own; "
        f"seed {result.seed}"
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
    ways = dict.fromkeys((m.strategy, m.kind) for m in result.measurements)
    rows = []
    for strategy, kind in ways:
        found = {m.pool: m for m in result.measurements if (m.strategy, m.kind) == (strategy, kind)}
        cells = [_cells(found.get(pool)) for pool in pools_of(result)]
        rows.append([strategy, kind, *(cell for pair in cells for cell in pair), _exponent(found)])
    return rows


def note_of(m: StrategyMeasurement) -> str:
    """Return what to know of a measurement, or why there are no numbers."""
    if m.status == "measured":
        trained = "" if m.prepare_seconds is None else f"training takes {m.prepare_seconds:.3g} s"
        said = ", ".join(filter(None, (m.note, trained)))
        return f"  {m.strategy}, {m.pool:,}: {said}" if said else ""
    way = "" if m.kind == "ours" else f" ({m.kind})"
    return f"  {m.strategy}{way}, {m.pool:,}: {m.status}{': ' if m.note else ''}{m.note}"


def _cells(m: StrategyMeasurement | None) -> tuple[str, str]:
    if m is None or m.choose_seconds is None or m.peak_mib is None:
        return (_NONE if m is None else m.status, _NONE)
    return f"{m.choose_seconds:.3g}", f"{m.peak_mib:,.0f}"


def _exponent(found: dict[int, StrategyMeasurement]) -> str:
    """Return the slope of log seconds over log samples, where two pools or more were measured."""
    pairs = [(pool, m.choose_seconds) for pool, m in found.items() if m.choose_seconds]
    if len(pairs) < 2:
        return _NONE
    sizes, seconds = zip(*pairs, strict=True)
    return f"{fit_exponent(sizes, seconds):.2f}"
