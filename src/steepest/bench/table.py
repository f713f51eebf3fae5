"""A bench result as plain text."""

from __future__ import annotations

from steepest.bench.result import BenchResult, Growth, Measurement, WorkloadResult
from steepest.report.text_table import text_table

_HEADER = [
    "contender",
    "ms/sample",
    "time / plain",
    "samples/s",
    "peak MiB",
    "memory / plain",
    "largest error",
]
_NONE = "–"


def describe_result(result: BenchResult) -> str:
    """Return one table per workload, with what a reader must know below it."""
    return "\n\n".join(_describe_workload(load, result) for load in result.workloads)


def _describe_workload(load: WorkloadResult, result: BenchResult) -> str:
    place = result.environment["device"]
    if result.device == "cpu":
        place = f"cpu, {result.threads} thread{'s' if result.threads > 1 else ''}"
    shape = " × ".join(map(str, load.sample_shape))
    title = (
        f"{load.workload}: {_count(load.parameters)} parameters, batch {load.batch} of "
        f"{shape}, {result.precision}, {load.layout}; {place}; best of {result.rounds} by "
        f"{result.clock} time; seed {result.seed}"
    )
    parts = [title]
    if load.measurements:
        parts.append(text_table(_HEADER, [_row(m) for m in load.measurements]))
    notes = [f"  {m.contender}: {_note(m)}" for m in load.measurements if _note(m)]
    if load.note:
        notes.append(f"  {load.note}")
    if notes:
        parts.append("\n".join(notes))
    if load.growth:
        parts.append(_describe_growth(load.growth))
    return "\n".join(parts)


def _row(m: Measurement) -> list[str]:
    milliseconds = None if m.seconds_per_sample is None else 1e3 * m.seconds_per_sample
    return [
        m.contender,
        _number(milliseconds, ".4g"),
        _number(m.time_ratio, ".2f"),
        _number(m.samples_per_second, ",.4g" if (m.samples_per_second or 0) < 1e4 else ",.0f"),
        _number(m.peak_mib, ",.1f"),
        _number(m.memory_ratio, ".2f"),
        _number(m.relative_error, ".1e"),
    ]


def _note(m: Measurement) -> str:
    if m.status == "measured":
        return m.note
    return f"{m.status}: {m.note}" if m.note else m.status


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


def _number(value: float | None, form: str) -> str:
    return _NONE if value is None else format(value, form)
