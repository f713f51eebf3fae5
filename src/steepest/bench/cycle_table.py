"""A measurement of one cycle by every strategy as a table."""

from __future__ import annotations

from steepest.bench.cycle_result import CycleMeasurement, CycleResult
from steepest.bench.table import NONE, Table, say_status, show_number

_HEADER = (
    "strategy",
    "model, s",
    "own training",
    "auxiliary, s",
    "choosing, s",
    "peak MiB",
    "test metric",
)


def cycle_table(result: CycleResult) -> Table:
    """Return one row for each strategy."""
    return Table(
        _conditions(result),
        _HEADER,
        [_row(m) for m in result.measurements],
        [say_status(m.status, m.note) for m in result.measurements],
        [m.strategy for m in result.measurements],
    )


def _conditions(result: CycleResult) -> str:
    loop, recipe = result.config["loop"], result.config["training"]
    subset = loop["subset"] or 10 * loop["k"]
    place = result.environment["device"]
    return (
        f"{result.config['data']['name']}, {result.config['model']['name']}: {loop['initial']:,} "
        f"labelled, {recipe['epochs']} epochs, {loop['k']:,} chosen out of {subset:,}; {place}; "
        f"one run each; seed {result.seed}"
    )


def _row(m: CycleMeasurement) -> list[str]:
    own = NONE if m.own_training is None else ("yes" if m.own_training else "shared")
    return [
        m.strategy,
        show_number(m.training_seconds, ".1f"),
        own,
        show_number(m.auxiliary_seconds, ".2f"),
        show_number(m.choosing_seconds, ".2f"),
        show_number(m.peak_mib, ",.0f"),
        show_number(m.accuracy, ".4f"),
    ]
