"""Training throughput in images per second, beside a common loop with a data loader."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import torch

from steepest.bench.clock import Clock, choose_clock, turns
from steepest.bench.machine import describe_machine
from steepest.bench.notes import STOPPED, brief_with_kind
from steepest.bench.peak import count_flops, measure_peak
from steepest.bench.storage import SCHEMA
from steepest.bench.training_loops import MEAN, STEPS, TakeStep, Workload, loader_loop, our_loop
from steepest.bench.training_result import TrainingMeasurement, TrainingResult
from steepest.bench.training_runs import measure_runs
from steepest.core.progress import Progress
from steepest.errors import InputError
from steepest.training.gpu_sharing import shared_gpu
from steepest.training.torch_settings import own_randomness

LOADER = "loader"
_WARM_UP = 8
_FEW = 4
_NEEDS_GPU = "needs a GPU"


@dataclass(frozen=True)
class Settings:
    """Settings: the model to train, and for how long.

    Attributes:
        load: The model and its images.
        device: Where.
        threads: CPU threads.
        seconds: Of each timing.
        steps: Of each timing, instead of seconds.
        runs: Numbers of trainings side by side.
        rounds: In which all take turns; the best counts.
        command: What was typed, for the record.
    """

    load: Workload
    device: torch.device
    threads: int
    seconds: float = 2.0
    steps: int | None = None
    runs: tuple[int, ...] = (1, 2, 4)
    rounds: int = 2
    command: str = ""

    def __post_init__(self) -> None:
        """Raise if something cannot be used.

        Raises:
            InputError: Says the remedy.
        """
        least = {"batch": self.load.batch - 1, "threads": self.threads, "rounds": self.rounds}
        for name, value in least.items():
            if value < 1:
                raise InputError(f"--{name}: at least {2 if name == 'batch' else 1} is needed")
        if self.seconds <= 0 or (self.steps is not None and self.steps < 1):
            raise InputError("--seconds and --steps must be above 0")
        if any(number < 1 for number in self.runs):
            raise InputError("--runs: give numbers from 1 on, separated by commas")
        if self.load.workers < 0:
            raise InputError("--workers: at least 0 is needed")
        if self.load.precision == "bf16" and self.device.type == "cpu":
            raise InputError("training in bf16 is for GPUs: use --precision fp32 on a CPU")


class TrainingBench:
    """Trains in each way in turns, and can tell at any moment what is known so far.

    Args:
        settings: What to train.
        progress: Shows how far it is.
    """

    def __init__(self, settings: Settings, progress: Progress) -> None:
        self._settings = settings
        self._progress = progress
        self._clock = choose_clock(settings.device, settings.threads)
        self._flops = self._peak = math.nan
        several = [number for number in settings.runs if number > 1]
        self._rows = [
            TrainingMeasurement(name, "unfinished", STOPPED) for name in (LOADER, *STEPS)
        ] + [TrainingMeasurement("side by side", "unfinished", STOPPED, n) for n in several]

    def run(self, after_each: Callable[[TrainingResult], None] | None = None) -> TrainingResult:
        """Measure everything.

        Args:
            after_each: Called with what is known when a way was measured.
        """
        settings, before = self._settings, torch.get_num_threads()
        torch.set_num_threads(settings.threads)
        try:
            self._look_at_the_work()
            with (
                own_randomness(settings.load.seed, settings.device),
                self._progress.task("training", len(self._rows)) as step,
            ):
                for _ in self._measure_all():
                    step.advance()
                    if after_each is not None:
                        after_each(self.result())
        finally:
            torch.set_num_threads(before)
        return self.result()

    def result(self) -> TrainingResult:
        """Return what is known so far."""
        settings, load = self._settings, self._settings.load
        return TrainingResult(
            schema=SCHEMA,
            command=settings.command,
            environment=describe_machine(settings.device),
            device=settings.device.type,
            threads=settings.threads,
            model=load.model,
            image_shape=(len(MEAN), load.size, load.size),
            batch=load.batch,
            precision=load.precision,
            workers=load.workers,
            rounds=settings.rounds,
            flops_per_image=0.0 if math.isnan(self._flops) else self._flops,
            peak_flops=0.0 if math.isnan(self._peak) else self._peak,
            seed=load.seed,
            complete=all(row.status != "unfinished" for row in self._rows),
            measurements=tuple(self._with_ratios()),
        )

    def _with_ratios(self) -> Iterator[TrainingMeasurement]:
        """Compare with the loader's best, which a later round may have found."""
        base = self._rows[0].images_per_second
        for row in self._rows:
            rate = row.images_per_second
            yield replace(row, ratio=rate / base if rate and base else None)

    def _look_at_the_work(self) -> None:
        settings, load = self._settings, self._settings.load
        shape = (len(MEAN), load.size, load.size)
        self._flops = count_flops(load.make_model(settings.device), shape)
        dtype = torch.bfloat16 if settings.device.type == "cuda" else torch.float32
        self._peak = measure_peak(settings.device, dtype, self._clock, load.seed)

    def _measure_all(self) -> Iterator[None]:
        ready: dict[str, Timed] = {}
        for name in (LOADER, *STEPS):
            place = [row.contender for row in self._rows].index(name)
            try:
                ready[name] = self._prepare(name)
                self._rows[place] = self._timed(ready[name])
            except Exception as error:  # noqa: BLE001 - one way's trouble is recorded
                self._rows[place] = _failed(self._rows[place], error)
            yield
        for name in turns(list(ready), self._settings.rounds - 1):
            place = [row.contender for row in self._rows].index(name)
            if self._rows[place].status == "measured":
                try:
                    again = self._timed(ready[name])
                except Exception as error:  # noqa: BLE001 - one way's trouble is recorded
                    told = f"a later round failed: {brief_with_kind(error)}"
                    self._rows[place] = replace(self._rows[place], note=told)
                    continue
                if (again.images_per_second or 0) > (self._rows[place].images_per_second or 0):
                    self._rows[place] = again
        ready.clear()
        yield from self._measure_side_by_side()

    def _prepare(self, name: str) -> Timed:
        settings = self._settings
        if name not in (LOADER, "plain") and settings.device.type != "cuda":
            raise _UnsupportedError(_NEEDS_GPU)
        started = time.monotonic()
        if name == LOADER:
            take = loader_loop(settings.load, settings.device)
        else:
            take = our_loop(name, settings.load, settings.device)
        for _ in range(_WARM_UP):
            take()
        self._clock.wait()
        setup = time.monotonic() - started
        steps = settings.steps
        if steps is None:
            seconds = self._clock.seconds_of(take, _FEW)
            steps = max(_FEW, math.ceil(settings.seconds / max(seconds, 1e-9)))
        return Timed(name, take, setup, steps)

    def _timed(self, timed: Timed) -> TrainingMeasurement:
        seconds = self._clock.seconds_of(timed.take, timed.steps)
        host = _host_seconds(timed.take, self._clock)
        share = None if timed.name == LOADER else min(1.0, host / seconds)
        on_gpu = self._settings.device.type == "cuda"
        return self._row(timed.name, 1, seconds, timed.setup_seconds, share if on_gpu else None)

    def _row(
        self, name: str, runs: int, seconds: float, setup: float, host_share: float | None
    ) -> TrainingMeasurement:
        """Make a row from the seconds in which each run takes one step."""
        rate = runs * self._settings.load.batch / seconds
        return TrainingMeasurement(
            name,
            "measured",
            runs=runs,
            images_per_second=rate,
            step_ms=1e3 * seconds,
            host_share=host_share,
            peak_share=rate * self._flops / self._peak,
            setup_seconds=setup,
        )

    def _measure_side_by_side(self) -> Iterator[None]:
        settings = self._settings
        single = [row for row in self._rows if row.contender in STEPS and row.images_per_second]
        best = max(single, key=lambda row: row.images_per_second or 0, default=None)
        for place, row in enumerate(self._rows):
            if row.runs == 1:
                continue
            if best is None or best.step_ms is None:
                self._rows[place] = replace(row, status="unsupported", note="nothing to repeat")
                continue
            try:
                steps = settings.steps or math.ceil(1e3 * settings.seconds / best.step_ms)
                with shared_gpu() as shared:
                    seconds, setup = measure_runs(
                        *(best.contender, settings.load, settings.device),
                        *(row.runs, steps, settings.threads),
                    )
                found = self._row(row.contender, row.runs, seconds / steps, setup, None)
                through = " through MPS" if shared and settings.device.type == "cuda" else ""
                note = f"{best.contender}, in processes{through}"
                self._rows[place] = replace(found, note=note)
            except Exception as error:  # noqa: BLE001 - recorded
                self._rows[place] = _failed(row, error)
            yield


@dataclass(frozen=True)
class Timed:
    """A way to train that is ready.

    Attributes:
        name: Its name.
        take: Takes the next step.
        setup_seconds: Until the first steps were done.
        steps: Of each timing.
    """

    name: str
    take: TakeStep
    setup_seconds: float
    steps: int


class _UnsupportedError(Exception):
    """Says why something cannot be measured here."""


def _failed(row: TrainingMeasurement, error: Exception) -> TrainingMeasurement:
    if isinstance(error, _UnsupportedError):
        return replace(row, status="unsupported", note=str(error))
    return replace(row, status="failed", note=brief_with_kind(error))


def _host_seconds(take: TakeStep, clock: Clock) -> float:
    """Return the seconds after which the host is free again, a device being idle before."""
    clock.wait()
    start = time.perf_counter()
    for _ in range(_FEW):
        take()
    seconds = (time.perf_counter() - start) / _FEW
    clock.wait()
    return seconds
