"""A measurement of gradient norms as plain text."""

from __future__ import annotations

from steepest.bench.gradnorm_result import GradnormResult, Growth, Measurement, WorkloadResult
from steepest.bench.storage import Table, name_place, say_status, show_number
from steepest.experiment.report.tables import text_table

_HEADER = (
    "contender",
    "ms/sample",
    "time / plain",
    "first / plain",
    "samples/s",
    "peak MiB",
    "memory / plain",
    "largest error",
)


def describe_gradnorm(result: GradnormResult) -> str:
    """Return one table per workload, with notes below it."""
    return "\n\n".join(_describe_workload(load, result) for load in result.workloads)


def _describe_workload(load: WorkloadResult, result: GradnormResult) -> str:
    table = Table(
        _conditions(load, result),
        _HEADER,
        [_row(m) for m in load.measurements],
        [say_status(m.status, m.note) for m in load.measurements],
        [m.contender for m in load.measurements],
    )
    note = [f"  {load.note}"] if load.note else []
    growth = [_describe_growth(load.growth)] if load.growth else []
    return "\n".join([table.text(), *note, *growth])


def _conditions(load: WorkloadResult, result: GradnormResult) -> str:
    shape = " × ".join(map(str, load.sample_shape))
    return (
        f"{load.workload}: {_count(load.parameters)} parameters, batch {load.batch} of "
        f"{shape}, {result.precision}, {load.layout}; {name_place(result, result.threads)}; "
        f"best of {result.rounds} by {result.clock} time; seed {result.seed}"
    )


def _row(m: Measurement) -> list[str]:
    milliseconds = None if m.seconds_per_sample is None else 1e3 * m.seconds_per_sample
    rate = m.samples_per_second
    return [
        m.contender,
        show_number(milliseconds, ".4g"),
        show_number(m.time_ratio, ".2f"),
        show_number(m.first_ratio, ".2f"),
        show_number(rate, ",.4g" if (rate or 0) < 1e4 else ",.0f"),
        show_number(m.peak_mib, ",.1f"),
        show_number(m.memory_ratio, ".2f"),
        show_number(m.relative_error, ".1e"),
    ]


def _describe_growth(growth: tuple[Growth, ...]) -> str:
    batches = text_table(
        ["batch", *(f"{g.contender}, ms/sample" for g in growth)],
        [
            [str(size), *(f"{1e3 * g.batch_seconds[i]:.4g}" for g in growth)]
            for i, size in enumerate(growth[0].batches)
        ],
    )
    pools = text_table(
        ["pool", *(f"{g.contender}, s" for g in growth)],
        [
            [str(size), *(f"{g.pool_seconds[i]:.4g}" for g in growth)]
            for i, size in enumerate(growth[0].pools)
        ],
    )
    fits = ", ".join(f"{g.contender} {g.pool_exponent:.3f}" for g in growth)
    return f"{batches}\n{pools}\n  time grows with the pool to the power of: {fits}"


def _count(number: int) -> str:
    return f"{number / 1e6:.1f} M" if number >= 1e5 else f"{number / 1e3:.1f} k"
