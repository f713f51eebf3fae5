"""A measurement of precisions as a table."""

from __future__ import annotations

from steepest.bench.precision_result import PrecisionMeasurement, PrecisionResult
from steepest.bench.table import NONE, Table, say_status, show_number

_HEADER = (
    "precision",
    "Spearman",
    "common in the top",
    "share",
    "median error",
    "largest error",
    "median against fp64",
    "largest against fp64",
)


def precision_table(result: PrecisionResult) -> Table:
    """Return one row for each precision."""
    return Table(
        _conditions(result),
        _HEADER,
        [_row(m) for m in result.precisions],
        [say_status(m.status, m.note) for m in result.precisions],
        [m.precision for m in result.precisions],
    )


def _conditions(result: PrecisionResult) -> str:
    metrics = ", ".join(
        f"test {name} {value:.4f}"
        for name, value in result.test_metrics.items()
        if isinstance(value, float)
    )
    place = result.environment["device"]
    return (
        f"{result.preset}: {result.model} after {result.epochs} epochs on {result.labels} labels "
        f"of {result.data} ({metrics or 'not trained'}); {result.norm} norms of n = "
        f"{result.pool} unlabelled samples against strict fp32, of {result.checked} against fp64; "
        f"{place}; seed {result.seed}"
    )


def _row(m: PrecisionMeasurement) -> list[str]:
    true = [show_number(m.true_median_error, ".1e"), show_number(m.true_largest_error, ".1e")]
    if m.agreement is None:
        return [m.precision, *[NONE] * 5, *true]
    a = m.agreement
    return [
        m.precision,
        show_number(a.spearman, ".6f"),
        f"{a.top_common} of {a.top_count}",
        f"{100 * a.top_share:.1f} %",
        show_number(a.median_error, ".1e"),
        show_number(a.largest_error, ".1e"),
        *true,
    ]
