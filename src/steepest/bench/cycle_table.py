"""A measurement of one cycle by every strategy as plain text."""

from __future__ import annotations

from steepest.bench.cycle_result import CycleMeasurement, CycleResult
from steepest.report.text_table import text_table

HEADER = (
    "strategy",
    "model, s",
    "own training",
    "auxiliary, s",
    "choosing, s",
    "peak MiB",
    "test metric",
)
_NONE = "–"


def describe_cycle(result: CycleResult) -> str:
    """Return one table, with what a reader must know around it."""
    notes = [f"  {m.strategy}: {note}" for m in result.measurements if (note := note_of(m))]
    return "\n".join([conditions(result), text_table(HEADER, rows_of(result)), *notes])


def conditions(result: CycleResult) -> str:
    """Return in one sentence what was trained and chosen, and where."""
    loop, recipe = result.config["loop"], result.config["training"]
    subset = loop["subset"] or 10 * loop["k"]
    place = result.environment["device"]
    return (
        f"{result.config['data']['name']}, {result.config['model']['name']}: {loop['initial']:,} "
        f"labelled, {recipe['epochs']} epochs, {loop['k']:,} chosen out of {subset:,}; {place}; "
        f"one run each; seed {result.seed}"
    )


def rows_of(result: CycleResult) -> list[list[str]]:
    """Return the cells of the table."""
    return [_row(m) for m in result.measurements]


def note_of(m: CycleMeasurement) -> str:
    """Return why there are no numbers."""
    return "" if m.status == "measured" else f"{m.status}{': ' if m.note else ''}{m.note}"


def _row(m: CycleMeasurement) -> list[str]:
    own = _NONE if m.own_training is None else ("yes" if m.own_training else "shared")
    return [
        m.strategy,
        _number(m.training_seconds, ".1f"),
        own,
        _number(m.auxiliary_seconds, ".2f"),
        _number(m.choosing_seconds, ".2f"),
        _number(m.peak_mib, ",.0f"),
        _number(m.accuracy, ".4f"),
    ]


def _number(value: float | None, form: str) -> str:
    return _NONE if value is None else format(value, form)
