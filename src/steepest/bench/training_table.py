"""A measurement of training as plain text."""

from __future__ import annotations

from steepest.bench.training_result import TrainingMeasurement, TrainingResult
from steepest.report.text_table import text_table

HEADER = (
    "training",
    "runs",
    "images/s",
    "/ loader",
    "ms/step",
    "host share",
    "share of peak",
    "set-up, s",
)
_NONE = "–"


def describe_training(result: TrainingResult) -> str:
    """Return one table, with what a reader must know around it."""
    notes = [f"  {m.contender}: {note}" for m in result.measurements if (note := note_of(m))]
    return "\n".join([conditions(result), text_table(HEADER, rows_of(result)), *notes])


def conditions(result: TrainingResult) -> str:
    """Return in one sentence what was trained, and where."""
    place = result.environment["device"]
    if result.device == "cpu":
        place = f"cpu, {result.threads} thread{'s' if result.threads > 1 else ''}"
    shape = " × ".join(map(str, result.image_shape))
    return (
        f"{result.model}: batch {result.batch} of {shape}, {result.precision}; "
        f"{result.flops_per_image / 1e9:.3g} GFLOP an image, matrix products at "
        f"{result.peak_flops / 1e12:.3g} TFLOP/s; loader with {result.workers} workers; {place}; "
        f"best of {result.rounds}; seed {result.seed}"
    )


def rows_of(result: TrainingResult) -> list[list[str]]:
    """Return the cells of the table."""
    return [_row(m) for m in result.measurements]


def note_of(m: TrainingMeasurement) -> str:
    """Return what to know of a measurement, or why there are no numbers."""
    if m.status == "measured":
        return m.note
    return f"{m.status}: {m.note}" if m.note else m.status


def _row(m: TrainingMeasurement) -> list[str]:
    return [
        m.contender,
        str(m.runs),
        _number(m.images_per_second, ",.0f" if (m.images_per_second or 0) >= 100 else ".3g"),
        _number(m.ratio, ".2f"),
        _number(m.step_ms, ".3f"),
        _percent(m.host_share),
        _percent(m.peak_share),
        _number(m.setup_seconds, ".1f"),
    ]


def _number(value: float | None, form: str) -> str:
    return _NONE if value is None else format(value, form)


def _percent(value: float | None) -> str:
    return _NONE if value is None else f"{100 * value:.1f} %"
