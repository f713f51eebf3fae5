"""Training throughput in images per second, beside a common loop with a data loader."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import nn
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode

from steepest.bench.machine import describe_machine
from steepest.bench.measuring import Clock, choose_clock, turns
from steepest.bench.storage import (
    SCHEMA,
    STOPPED,
    Stored,
    Table,
    brief_with_kind,
    name_place,
    say_status,
    show_number,
)
from steepest.bench.training_loops import MEAN, STEPS, TakeStep, Workload, loader_loop, our_loop
from steepest.bench.training_runs import measure_runs
from steepest.core.progress import Progress
from steepest.core.torch_settings import own_randomness
from steepest.errors import InputError
from steepest.modules.batches import logits_of
from steepest.training.gpu_sharing import shared_gpu

LOADER = "loader"
_WARM_UP = 8
_FEW = 4
_NEEDS_GPU = "needs a GPU"
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
_SIDE_ON_GPU = 8192
_SIDE_ON_CPU = 768
_CALLS = 5
_SAMPLES = 2


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
        command: The command as typed, for the record.
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
        least = {"batch-size": self.load.batch - 1, "threads": self.threads, "rounds": self.rounds}
        for name, value in least.items():
            if value < 1:
                raise InputError(f"--{name}: at least {2 if name == 'batch-size' else 1} is needed")
        if self.seconds <= 0 or (self.steps is not None and self.steps < 1):
            raise InputError("--seconds and --steps must be above 0")
        if any(number < 1 for number in self.runs):
            raise InputError("--parallel: give numbers from 1 on, separated by commas")
        if self.load.workers < 0:
            raise InputError("--loader-workers: at least 0 is needed")
        if self.load.precision == "bf16" and self.device.type == "cpu":
            raise InputError("training in bf16 is for GPUs: use --precision fp32 on a CPU")


class TrainingBench:
    """Trains in each way in turns, and can report the results so far at any moment.

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
        """Return the results so far."""
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
                    text = f"a later round failed: {brief_with_kind(error)}"
                    self._rows[place] = replace(self._rows[place], note=text)
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


@dataclass(frozen=True)
class TrainingMeasurement:
    """One way to train.

    Attributes:
        contender: Its name.
        status: How it went.
        note: What to know of it, or why there are no numbers.
        runs: Trainings side by side.
        images_per_second: Of all runs together.
        ratio: As a multiple of the loop with a data loader.
        step_ms: Milliseconds of one step of one run.
        host_share: Share of a step that the host takes to start it.
        peak_share: Of the measured rate of matrix products.
        setup_seconds: Until the first steps were done.
    """

    contender: str
    status: Literal["measured", "unsupported", "failed", "unfinished"]
    note: str = ""
    runs: int = 1
    images_per_second: float | None = None
    ratio: float | None = None
    step_ms: float | None = None
    host_share: float | None = None
    peak_share: float | None = None
    setup_seconds: float | None = None


@dataclass(frozen=True)
class TrainingResult(Stored):
    """A whole run of ``steepest bench training``.

    Attributes:
        threads: CPU threads.
        model: The model.
        image_shape: One image's shape.
        batch: Images in one step.
        precision: ``"fp32"`` or ``"bf16"`` on all sides.
        workers: Processes of the data loader.
        rounds: Interleaved rounds; the best counts.
        flops_per_image: Operations of the products of one image's step, counted by torch.
        peak_flops: Operations a second of a large matrix product, measured.
        measurements: One for each way to train.
    """

    threads: int
    model: str
    image_shape: tuple[int, ...]
    batch: int
    precision: str
    workers: int
    rounds: int
    flops_per_image: float
    peak_flops: float
    measurements: tuple[TrainingMeasurement, ...]


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


def count_flops(model: nn.Module, image_shape: tuple[int, ...]) -> float:
    """Return the operations of all products in one image's forward and backward pass.

    The model is run on the device it is on, in training mode as it is; statistics of batches move.
    """
    device = next(model.parameters()).device
    inputs = torch.zeros((_SAMPLES, *image_shape), device=device)
    targets = torch.zeros(_SAMPLES, dtype=torch.long, device=device)
    with FlopCounterMode(display=False) as counter:
        loss = functional.cross_entropy(logits_of(model(inputs)), targets)
        torch.autograd.backward(loss)
    model.zero_grad()
    return float(counter.get_total_flops()) / _SAMPLES


def measure_peak(device: torch.device, dtype: torch.dtype, clock: Clock, seed: int) -> float:
    """Return the operations a second of a large product of random matrices."""
    side = _SIDE_ON_GPU if device.type == "cuda" else _SIDE_ON_CPU
    random = torch.Generator(device).manual_seed(seed)
    # Random numbers, as products of zeros are faster than any that count.
    a, b = (torch.randn(side, side, device=device, generator=random).to(dtype) for _ in range(2))

    def multiply() -> None:
        torch.mm(a, b)

    clock.seconds_of(multiply, _CALLS)
    seconds = min(clock.seconds_of(multiply, _CALLS) for _ in range(2))
    return 2 * side**3 / seconds
