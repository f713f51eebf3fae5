"""One contender on one workload while it is being measured; whatever goes wrong is recorded."""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from steepest.bench.accuracy import largest_relative_error
from steepest.bench.case import Case
from steepest.bench.contenders.base import UNIT, Prepare, Step
from steepest.bench.gradnorm_result import Measurement, Status
from steepest.bench.measuring import PeakGauge
from steepest.bench.storage import STOPPED, brief, brief_with_kind, not_installed
from steepest.core.memory import is_out_of_memory

_MIB = 2**20


@dataclass
class Trial:
    """Numbers of one contender, growing as rounds go by.

    Attributes:
        name: The contender's name.
        status: How it stands.
        note: What to know of it.
        step: The contender, once ready and as long as it runs.
        samples: Samples per call.
        calls: Calls per timing.
        round_seconds: Seconds per sample of each round so far.
        peak: Peak memory in bytes.
        error: Largest relative error.
        first: Seconds per sample of the first call, and of making ready.
    """

    name: str
    status: Status = "unfinished"
    note: str = STOPPED
    step: Step | None = None
    samples: int | None = None
    calls: int = 1
    round_seconds: list[float] = field(default_factory=list)
    peak: int | None = None
    error: float | None = None
    first: float | None = None

    def get_ready(self, prepare: Prepare, case: Case, truth: Tensor) -> None:
        """Prepare the contender, check its norms, and measure its memory."""
        self._guard(lambda: self._get_ready(prepare, case, truth))

    def time(self, case: Case) -> None:
        """Measure one round."""
        if self.step is not None:
            self._guard(lambda: self._time(case))

    def _get_ready(self, prepare: Prepare, case: Case, truth: Tensor) -> None:
        gauge = PeakGauge(case.device)
        made: list[Step] = []
        norms: list[Tensor | None] = []

        def start() -> None:
            made.append(prepare(case))
            norms.append(made[0].run())

        seconds = case.clock.seconds_of(start)
        step, found = made[0], norms.pop()
        self.first = seconds / step.samples
        if found is not None:
            self.error = largest_relative_error(found, truth)
        del found
        if not step.holds_memory:
            gauge.reset()  # A peer's own copy of the model is no part of a call.
        self.peak = gauge.peak_bytes(step.run, case.clock.warm_up)
        self.calls = case.clock.calls_for(step.run)
        self.step, self.samples, self.note = step, step.samples, step.remark()

    def _time(self, case: Case) -> None:
        step = self.step
        if step is not None:
            seconds = case.clock.seconds_of(step.run, self.calls)
            self.round_seconds.append(seconds / step.samples)
            self.status = "measured"

    def _guard(self, work: Callable[[], None]) -> None:
        """Do a piece of work; an error ends this contender alone."""
        try:
            work()
        except Exception as error:  # noqa: BLE001 - a peer may raise anything; it is recorded
            self.step = None
            self.status, self.note = _verdict(error)
        if self.step is None:
            # What the contender held must not weigh on those that come after it.
            gc.collect()
            if torch.cuda.is_available():
                torch.cuda.empty_cache()

    def measurement(self) -> Measurement:
        """Return the numbers so far, without ratios."""
        best = min(self.round_seconds, default=None)
        return Measurement(
            self.name,
            self.status,
            self.note,
            samples=self.samples,
            calls=self.calls if self.round_seconds else None,
            round_seconds=tuple(self.round_seconds),
            seconds_per_sample=best,
            samples_per_second=None if best is None else 1 / best,
            peak_mib=None if self.peak is None else self.peak / _MIB,
            relative_error=self.error,
            first_seconds=self.first,
        )


def with_ratios(measurements: list[Measurement]) -> tuple[Measurement, ...]:
    """Return the measurements as multiples of the plain pass among them."""
    unit = next((m for m in measurements if m.contender == UNIT), None)
    if unit is None:
        return tuple(measurements)
    return tuple(
        replace(
            m,
            time_ratio=_ratio(m.seconds_per_sample, unit.seconds_per_sample),
            memory_ratio=_ratio(m.peak_mib, unit.peak_mib),
            first_ratio=_ratio(m.first_seconds, unit.seconds_per_sample),
        )
        for m in measurements
    )


def _ratio(value: float | None, unit: float | None) -> float | None:
    return None if value is None or not unit else value / unit


def _verdict(error: Exception) -> tuple[Status, str]:
    """Describe an error in one line."""
    text = brief(error)
    if isinstance(error, ModuleNotFoundError):
        package = (error.name or text).partition(".")[0]
        return "absent", not_installed(package)
    if isinstance(error, NotImplementedError):
        return "unsupported", text
    # Our own norms say what to do about it, and name the cause.
    if is_out_of_memory(error) or is_out_of_memory(error.__cause__ or error):
        return "out-of-memory", text
    return "failed", brief_with_kind(error)
