"""One cycle of an experiment by every strategy: what each adds to the training of the model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from steepest.bench.machine import describe_machine
from steepest.bench.storage import (
    NONE,
    SCHEMA,
    STOPPED,
    Stored,
    Table,
    brief,
    say_status,
    show_number,
)
from steepest.core.devices import choose_device
from steepest.core.progress import Progress
from steepest.errors import ConfigError, InputError, RunFolderError, SteepestError
from steepest.experiment.building import load_data
from steepest.experiment.config import Config
from steepest.experiment.loop import Experiment
from steepest.experiment.record import Record
from steepest.experiment.variants import Variant

_MIB = 2**20
_HEADER = (
    "strategy",
    "model, s",
    "own training",
    "auxiliary, s",
    "choosing, s",
    "peak MiB",
    "test metric",
)


class CycleBench:
    """Lets one strategy after another choose after the same first training.

    Runs are kept in the folder: the same bench again takes over what is complete.

    Args:
        config: The experiment; its strategy is replaced.
        variants: The strategies.
        folder: The folder of the runs.
        progress: Shows how far it is.
        command: The command as typed, for the record.

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
            after_each: Called with the results so far after each strategy.

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
        """Return the results so far."""
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


@dataclass(frozen=True)
class CycleMeasurement:
    """One strategy in one cycle.

    Attributes:
        strategy: Its name, or the label of a variant.
        status: How it went.
        note: Why there are no numbers.
        options: Its options.
        training_seconds: Training the model: that of others, if its weights were taken over.
        own_training: Whether the strategy changes the training, so that it had one of its own.
        auxiliary_seconds: Training of other things for the strategy's sake.
        choosing_seconds: From the trained model to the choice.
        peak_mib: The most memory while choosing or training for it.
        accuracy: The model's headline metric on the test set, before the choice.
    """

    strategy: str
    status: Literal["measured", "refused", "unfinished"]
    note: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    training_seconds: float | None = None
    own_training: bool | None = None
    auxiliary_seconds: float | None = None
    choosing_seconds: float | None = None
    peak_mib: float | None = None
    accuracy: float | None = None


@dataclass(frozen=True)
class CycleResult(Stored):
    """A whole run of ``steepest bench cycle``.

    Attributes:
        config: The experiment, without its strategy.
        measurements: One for each strategy.
    """

    config: Mapping[str, Any]
    measurements: tuple[CycleMeasurement, ...]


def cycle_table(result: CycleResult) -> Table:
    """Return one row for each strategy."""
    return Table(
        _conditions(result),
        _HEADER,
        [_row(m) for m in result.measurements],
        [say_status(m.status, m.note) for m in result.measurements],
        [m.strategy for m in result.measurements],
    )


def _conditions(result: CycleResult) -> str:
    loop, recipe = result.config["loop"], result.config["training"]
    subset = loop["subset"] or 10 * loop["k"]
    place = result.environment["device"]
    return (
        f"{result.config['data']['name']}, {result.config['model']['name']}: {loop['initial']:,} "
        f"labelled, {recipe['epochs']} epochs, {loop['k']:,} chosen out of {subset:,}; {place}; "
        f"one run each; seed {result.seed}"
    )


def _row(m: CycleMeasurement) -> list[str]:
    own = NONE if m.own_training is None else ("yes" if m.own_training else "shared")
    return [
        m.strategy,
        show_number(m.training_seconds, ".1f"),
        own,
        show_number(m.auxiliary_seconds, ".2f"),
        show_number(m.choosing_seconds, ".2f"),
        show_number(m.peak_mib, ",.0f"),
        show_number(m.accuracy, ".4f"),
    ]
