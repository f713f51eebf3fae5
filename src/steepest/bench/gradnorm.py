"""Exact per-sample gradient norms beside a plain pass and beside peers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from steepest.bench.accuracy import true_norms
from steepest.bench.case import Case, numerics
from steepest.bench.contenders.base import CONTENDERS, UNIT
from steepest.bench.gradnorm_result import GradnormResult, Growth, WorkloadResult
from steepest.bench.growth import measure_growth
from steepest.bench.machine import describe_machine
from steepest.bench.measuring import Clock, choose_clock, turns
from steepest.bench.storage import SCHEMA, brief, brief_with_kind, not_installed
from steepest.bench.trial import Trial, with_ratios
from steepest.bench.workloads import Workload, find_workload
from steepest.core.memory import is_out_of_memory
from steepest.core.progress import Progress
from steepest.errors import InputError, ModelError
from steepest.gradnorm import Precision


@dataclass(frozen=True)
class Settings:
    """Settings of a measurement.

    Attributes:
        workloads: Names of loads.
        contenders: Names of contenders; the plain pass is added.
        device: Where.
        precision: How products are computed on all sides.
        threads: CPU threads.
        rounds: Interleaved rounds; the best counts.
        batch: Samples at a time; None takes each workload's own.
        channels_last: Whether images and volumes keep their channels last.
        growth: Whether to measure how time grows as well.
        seed: Decides weights and inputs.
        command: The command as typed, for the record.
    """

    workloads: tuple[str, ...]
    contenders: tuple[str, ...]
    device: torch.device
    precision: Precision = "fp32"
    threads: int = 1
    rounds: int = 5
    batch: int | None = None
    channels_last: bool = False
    growth: bool = False
    seed: int = 0
    command: str = ""

    def __post_init__(self) -> None:
        """Raise if something is not known, or not possible.

        Raises:
            InputError: Says the remedy.
        """
        for name, value in (("batch-size", self.batch), ("threads", self.threads)):
            if value is not None and value < 1:
                raise InputError(f"--{name} {value}: at least 1 is needed")
        if self.rounds < 1:
            raise InputError(f"--rounds {self.rounds}: at least 1 is needed")
        if self.precision == "tf32" and self.device.type == "cpu":
            raise InputError("--precision tf32 is for GPUs: use fp32 or bf16 on a CPU")
        for name in self.workloads:
            find_workload(name)
        for name in self.contenders:
            CONTENDERS.get(name)


class GradnormBench:
    """Measures all that the settings name, and can report the results so far at any moment.

    Args:
        settings: The measurements to make.
        progress: Shows how far it is.
        clock: Replaces the device's own clock.
    """

    def __init__(self, settings: Settings, progress: Progress, clock: Clock | None = None) -> None:
        self._settings = settings
        self._progress = progress
        self._clock = clock or choose_clock(settings.device, settings.threads)
        self._done: list[WorkloadResult] = []
        self._current: _Contest | None = None
        self._complete = False

    def run(self, after_each: Callable[[GradnormResult], None] | None = None) -> GradnormResult:
        """Measure everything.

        Args:
            after_each: Called with what is known when a workload is done.
        """
        settings = self._settings
        with numerics(settings.precision, settings.threads):
            for name in settings.workloads:
                self._current = _Contest(find_workload(name), settings, self._clock)
                self._current.measure(self._progress)
                self._done.append(self._current.result())
                self._current = None
                self._complete = len(self._done) == len(settings.workloads)
                if after_each is not None:
                    after_each(self.result())
        return self.result()

    def result(self) -> GradnormResult:
        """Return the results so far."""
        settings = self._settings
        current = [] if self._current is None else [self._current.result()]
        return GradnormResult(
            schema=SCHEMA,
            command=settings.command,
            environment=describe_machine(settings.device) | {"threads": settings.threads},
            device=settings.device.type,
            seed=settings.seed,
            complete=self._complete,
            precision=settings.precision,
            threads=settings.threads,
            clock=self._clock.kind,
            rounds=settings.rounds,
            workloads=(*self._done, *current),
        )


class _Contest:
    """One workload under way."""

    def __init__(self, load: Workload, settings: Settings, clock: Clock) -> None:
        self._load = load
        self._settings = settings
        self._clock = clock
        self._batch = settings.batch or load.batch(settings.device)
        self._layout = load.layout(channels_last=settings.channels_last)
        self._parameters = 0
        self._checked = 0
        contenders = settings.contenders
        if UNIT not in contenders:
            contenders = (UNIT, *contenders)
        self._trials = [Trial(name) for name in contenders]
        self._growth: tuple[Growth, ...] = ()
        self._note = ""

    def measure(self, progress: Progress) -> None:
        """Measure all contenders in turns; if memory runs out, the results so far are kept."""
        try:
            self._measure(progress)
        except ModuleNotFoundError as error:
            self._note = not_installed((error.name or str(error)).partition(".")[0])
        except ModelError as error:
            self._note = brief(error)
        except (MemoryError, RuntimeError) as error:
            if not is_out_of_memory(error):
                raise
            self._note = f"stopped, out of memory: {brief(error)}"

    def _measure(self, progress: Progress) -> None:
        names = [trial.name for trial in self._trials]
        with progress.task(self._load.name, len(names) * (1 + self._settings.rounds)) as step:
            case = self._make_case()
            truth = true_norms(case)
            self._checked = len(truth)
            for trial in self._trials:
                trial.get_ready(CONTENDERS.get(trial.name), case, truth)
                step.advance(note=trial.name)
            by_name = {trial.name: trial for trial in self._trials}
            for name in turns(names, self._settings.rounds):
                by_name[name].time(case)
                step.advance(note=name)
        for trial in self._trials:
            trial.step = None  # Peers' copies of the model must not weigh on what follows.
        if self._settings.growth:
            self._measure_growth(case)

    def _measure_growth(self, case: Case) -> None:
        try:
            self._growth = measure_growth(case, self._settings.rounds)
        except Exception as error:  # noqa: BLE001 - what was measured before must not be lost
            self._note = f"growth was not measured: {brief_with_kind(error)}"

    def result(self) -> WorkloadResult:
        """Return the results so far."""
        return WorkloadResult(
            self._load.name,
            self._parameters,
            self._load.shape,
            self._batch,
            str(self._layout).removeprefix("torch.").removesuffix("_format").replace("_", " "),
            self._checked,
            with_ratios([trial.measurement() for trial in self._trials]),
            self._growth,
            self._note,
        )

    def _make_case(self) -> Case:
        settings = self._settings
        model = self._load.make_model(settings.seed)
        self._parameters = sum(p.numel() for p in model.parameters() if p.requires_grad)
        model = model.to(settings.device).to(memory_format=self._layout)  # type: ignore[call-overload]
        inputs = self._load.make_inputs(self._batch, settings.seed).to(settings.device)
        if inputs.ndim > 2:
            inputs = inputs.contiguous(memory_format=self._layout)
        return Case(model, inputs, settings.precision, self._clock)
