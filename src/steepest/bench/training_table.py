"""A measurement of training as a table."""

from __future__ import annotations

from steepest.bench.table import Table, name_place, say_status, show_number
from steepest.bench.training_result import TrainingMeasurement, TrainingResult

_HEADER = (
    "training",
    "runs",
    "images/s",
    "/ loader",
    "ms/step",
    "host share",
    "share of peak",
    "set-up, s",
)


def training_table(result: TrainingResult) -> Table:
    """Return one row for each way to train."""
    return Table(
        _conditions(result),
        _HEADER,
        [_row(m) for m in result.measurements],
        [say_status(m.status, m.note) for m in result.measurements],
        [m.contender for m in result.measurements],
    )


def _conditions(result: TrainingResult) -> str:
    shape = " × ".join(map(str, result.image_shape))
    return (
        f"{result.model}: batch {result.batch} of {shape}, {result.precision}; "
        f"{result.flops_per_image / 1e9:.3g} GFLOP an image, matrix products at "
        f"{result.peak_flops / 1e12:.3g} TFLOP/s; loader with {result.workers} workers; "
        f"{name_place(result, result.threads)}; best of {result.rounds}; seed {result.seed}"
    )


def _row(m: TrainingMeasurement) -> list[str]:
    return [
        m.contender,
        str(m.runs),
        show_number(m.images_per_second, ",.0f" if (m.images_per_second or 0) >= 100 else ".3g"),
        show_number(m.ratio, ".2f"),
        show_number(m.step_ms, ".3f"),
        _percent(m.host_share),
        _percent(m.peak_share),
        show_number(m.setup_seconds, ".1f"),
    ]


def _percent(share: float | None) -> str:
    return show_number(share, ".1%").replace("%", " %")
