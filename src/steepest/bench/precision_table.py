"""A measurement of precisions as plain text."""

from __future__ import annotations

from steepest.bench.precision_result import PrecisionMeasurement, PrecisionResult
from steepest.report.text_table import text_table

HEADER = (
    "precision",
    "Spearman",
    "common in the top",
    "share",
    "median error",
    "largest error",
    "median against fp64",
    "largest against fp64",
)
_NONE = "–"


def describe_precision(result: PrecisionResult) -> str:
    """Return one table, with what a reader must know around it."""
    notes = [f"  {m.precision}: {note}" for m in result.precisions if (note := note_of(m))]
    return "\n".join([conditions(result), text_table(HEADER, rows_of(result)), *notes])


def conditions(result: PrecisionResult) -> str:
    """Return in one sentence what was trained and scored, and against what."""
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


def rows_of(result: PrecisionResult) -> list[list[str]]:
    """Return the cells of the table."""
    return [_row(m) for m in result.precisions]


def note_of(m: PrecisionMeasurement) -> str:
    """Return what to know of a precision, or why there are no numbers."""
    return m.note if m.status == "measured" else f"{m.status}: {m.note}"


def _row(m: PrecisionMeasurement) -> list[str]:
    true = [_error(m.true_median_error), _error(m.true_largest_error)]
    if m.agreement is None:
        return [m.precision, *[_NONE] * 5, *true]
    a = m.agreement
    return [
        m.precision,
        _NONE if a.spearman is None else f"{a.spearman:.6f}",
        f"{a.top_common} of {a.top_count}",
        f"{100 * a.top_share:.1f} %",
        _error(a.median_error),
        _error(a.largest_error),
        *true,
    ]


def _error(value: float | None) -> str:
    return _NONE if value is None else f"{value:.1e}"
