"""File format of a measurement: numbers with their command, versions and hardware."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from steepest.bench.storage import Stored

Status = Literal["measured", "unsupported", "out-of-memory", "absent", "failed", "unfinished"]
"""Outcomes; all but the first give the reason in a note and hold fewer numbers."""


@dataclass(frozen=True)
class Measurement:
    """One contender on one workload.

    Attributes:
        contender: Its name.
        status: How it went.
        note: A remark, or why there are no numbers.
        samples: Samples per call.
        calls: Calls per timing.
        round_seconds: Seconds per sample in each round.
        seconds_per_sample: The best of them.
        samples_per_second: Its inverse.
        time_ratio: Seconds per sample as a multiple of the plain pass.
        peak_mib: Peak memory of a call above the resting state.
        memory_ratio: Peak memory as a multiple of the plain pass.
        first_seconds: Seconds of the first call for one sample, with what is found out in it.
        first_ratio: The same as a multiple of the plain pass.
        relative_error: The largest against double precision; None where no norms are made.
    """

    contender: str
    status: Status
    note: str = ""
    samples: int | None = None
    calls: int | None = None
    round_seconds: tuple[float, ...] = ()
    seconds_per_sample: float | None = None
    samples_per_second: float | None = None
    time_ratio: float | None = None
    peak_mib: float | None = None
    memory_ratio: float | None = None
    relative_error: float | None = None
    first_seconds: float | None = None
    first_ratio: float | None = None


@dataclass(frozen=True)
class Growth:
    """Growth of time with batch size and pool size for one contender.

    Attributes:
        contender: Its name.
        batches: Batch sizes.
        batch_seconds: The best seconds per sample at each of them.
        pools: Numbers of samples, in batches of the workload's size; the batch is repeated.
        pool_seconds: The best seconds in total for each of them.
        pool_exponent: The slope of log seconds over log samples: 1 is linear.
    """

    contender: str
    batches: tuple[int, ...]
    batch_seconds: tuple[float, ...]
    pools: tuple[int, ...]
    pool_seconds: tuple[float, ...]
    pool_exponent: float


@dataclass(frozen=True)
class WorkloadResult:
    """All contenders on one workload.

    Attributes:
        workload: Its name.
        parameters: Trainable parameters of the model.
        sample_shape: One sample's shape.
        batch: Samples at a time (n).
        layout: Memory layout of the model and the batch.
        checked: Samples compared with double precision.
        measurements: One per contender.
        growth: If asked for.
        note: Why nothing was measured, if so.
    """

    workload: str
    parameters: int
    sample_shape: tuple[int, ...]
    batch: int
    layout: str
    checked: int
    measurements: tuple[Measurement, ...]
    growth: tuple[Growth, ...] = ()
    note: str = ""


@dataclass(frozen=True)
class GradnormResult(Stored):
    """A whole run of ``steepest bench gradnorm``.

    Attributes:
        precision: How products are computed on all sides.
        threads: CPU threads.
        clock: ``"wall"``, or ``"cpu"`` for the time that the process held a core.
        rounds: Interleaved rounds; the best counts.
        workloads: One per model.
    """

    precision: str
    threads: int
    clock: str
    rounds: int
    workloads: tuple[WorkloadResult, ...]
