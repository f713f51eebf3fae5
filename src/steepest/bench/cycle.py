"""One cycle of an experiment by every strategy: what each adds to the training of the model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from steepest.bench.cycle_result import CycleMeasurement, CycleResult
from steepest.bench.machine import describe_machine
from steepest.bench.notes import STOPPED, brief
from steepest.bench.storage import SCHEMA
from steepest.core.devices import choose_device
from steepest.core.progress import Progress
from steepest.errors import ConfigError, InputError, RunFolderError, SteepestError
from steepest.experiment.config import Config
from steepest.experiment.loop import Experiment
from steepest.experiment.parts import load_data
from steepest.experiment.record import Record
from steepest.experiment.variants import Variant

_MIB = 2**20


class CycleBench:
    """Lets one strategy after another choose after the same first training.

    Runs are kept in the folder: the same bench again takes over what is complete.

    Args:
        config: The experiment; its strategy is replaced.
        variants: The strategies.
        folder: Where the runs go.
        progress: Shows how far it is.
        command: What was typed, for the record.

    Raises:
        ConfigError: If the experiment has a single cycle, after which nothing is chosen.
    """

    def __init__(
        self,
        config: Config,
        variants: Sequence[Variant],
        folder: Path,
        progress: Progress,
        command: str = "",
    ) -> None:
        if config.loop.cycles < 2:
            raise ConfigError("[loop] cycles must be at least 2: after the last, nothing is chosen")
        self._config = config
        self._variants = variants
        self._folder = folder
        self._progress = progress
        self._command = command
        self._rows = [CycleMeasurement(v.label, "unfinished", STOPPED) for v in variants]

    def run(self, after_each: Callable[[CycleResult], None] | None = None) -> CycleResult:
        """Measure everything.

        Args:
            after_each: Called with what is known after each strategy.

        Raises:
            InputError: If a run's folder holds something else, or cannot be written.
        """
        data = load_data(self._config)
        with self._progress.task("cycles", len(self._rows)) as step:
            for place, variant in enumerate(self._variants):
                config = variant.config(self._config, self._config.seed)
                options = config.strategy.options
                row = CycleMeasurement(variant.label, "unfinished", "", options)
                try:
                    experiment = Experiment(
                        config,
                        self._folder / variant.label,
                        data=data,
                        shared=self._folder / "first-cycle.safetensors",
                        member_jobs=1,  # One training at a time is what is measured.
                    )
                    metric = experiment.task.headline
                    self._rows[place] = _measured(row, experiment.run(until=1)[0], metric)
                except RunFolderError as error:
                    raise InputError(
                        f"--runs {self._folder} cannot be used ({brief(error)}): choose another"
                    ) from error
                except SteepestError as error:
                    self._rows[place] = replace(row, status="refused", note=brief(error))
                step.advance(note=variant.label)
                if after_each is not None:
                    after_each(self.result())
        return self.result()

    def result(self) -> CycleResult:
        """Return what is known so far."""
        device = choose_device(self._config.device)
        table = self._config.to_table()
        table.pop("strategy")
        return CycleResult(
            schema=SCHEMA,
            command=self._command,
            environment=describe_machine(device),
            device=device.type,
            config=table,
            seed=self._config.seed,
            complete=all(row.status != "unfinished" for row in self._rows),
            measurements=tuple(self._rows),
        )


def _measured(row: CycleMeasurement, record: Record, metric: str) -> CycleMeasurement:
    costs = [cost for cost in (record.scoring, record.auxiliary) if cost is not None]
    return replace(
        row,
        status="measured",
        options=record.options,
        training_seconds=record.training.seconds,
        own_training=not record.training.shared,
        auxiliary_seconds=None if record.auxiliary is None else record.auxiliary.seconds,
        choosing_seconds=None if record.scoring is None else record.scoring.seconds,
        peak_mib=max((cost.peak_bytes for cost in costs), default=0) / _MIB,
        accuracy=float(record.metrics[metric]),
    )
