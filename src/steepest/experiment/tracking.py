"""Sends the metrics of runs to MLflow, Weights & Biases or TensorBoard while they come in."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

from steepest.core.files import write_atomically
from steepest.core.journal import read_journal
from steepest.errors import InputError, SteepestWarning
from steepest.experiment.comparison_runs import Run
from steepest.experiment.config import Config

_SENT = "tracking.json"
"""In the folder of the results: what was sent, so that a resumed run goes on in the same place."""


class Tracker(Protocol):
    """A destination of metrics."""

    def begin(self, name: str, settings: Mapping[str, Any], identity: str | None) -> str:
        """Open a run, or the one that was begun before, and return its identity."""

    def log(self, identity: str, labels: int, metrics: Mapping[str, float]) -> None:
        """Send the metrics of one cycle, by the number of labels."""

    def close(self) -> None:
        """Send the rest."""


class MLflow:
    """MLflow, at ``MLFLOW_TRACKING_URI`` or its default place; one experiment per comparison."""

    def __init__(self, project: str, folder: Path) -> None:  # noqa: ARG002 - as for the others
        tracking = _imported("mlflow.tracking", "pip install mlflow")
        self._client = tracking.MlflowClient()
        known = self._client.get_experiment_by_name(project)
        self._experiment = known.experiment_id if known else self._client.create_experiment(project)

    def begin(self, name: str, settings: Mapping[str, Any], identity: str | None) -> str:
        """Create a run with the settings as its parameters."""
        if identity is not None:
            return identity
        created: str = self._client.create_run(self._experiment, run_name=name).info.run_id
        for key, value in settings.items():
            self._client.log_param(created, key.replace(":", "_"), str(value)[:500])
        return created

    def log(self, identity: str, labels: int, metrics: Mapping[str, float]) -> None:
        """Send the metrics of one cycle."""
        for name, value in metrics.items():
            self._client.log_metric(identity, name, value, step=labels)

    def close(self) -> None:
        """Do nothing: everything is sent at once."""


class WeightsAndBiases:
    """Weights & Biases, with the account and mode that ``wandb`` is set up for."""

    def __init__(self, project: str, folder: Path) -> None:
        self._wandb = _imported("wandb", "pip install wandb")
        self._project, self._folder = project, folder
        self._runs: dict[str, Any] = {}

    def begin(self, name: str, settings: Mapping[str, Any], identity: str | None) -> str:
        """Create a run with the settings as its configuration, or resume it."""
        run = self._wandb.init(
            project=self._project,
            name=name,
            id=identity,
            resume="allow",
            config=dict(settings),
            dir=str(self._folder),
            reinit="create_new",
        )
        self._runs[run.id] = run
        return str(run.id)

    def log(self, identity: str, labels: int, metrics: Mapping[str, float]) -> None:
        """Send the metrics of one cycle."""
        self._runs[identity].log(dict(metrics), step=labels)

    def close(self) -> None:
        """Finish all runs."""
        for run in self._runs.values():
            run.finish(quiet=True)


class TensorBoard:
    """Event files in ``tensorboard/`` beside the results, for ``tensorboard --logdir``."""

    def __init__(self, project: str, folder: Path) -> None:  # noqa: ARG002 - as for the others
        self._writer = _imported("torch.utils.tensorboard", "pip install tensorboard").SummaryWriter
        self._folder = folder / "tensorboard"
        self._writers: dict[str, Any] = {}

    def begin(self, name: str, settings: Mapping[str, Any], identity: str | None) -> str:  # noqa: ARG002
        """Open the folder of a run's events."""
        self._writers[name] = self._writer(str(self._folder / name))
        return name

    def log(self, identity: str, labels: int, metrics: Mapping[str, float]) -> None:
        """Write the metrics of one cycle."""
        for name, value in metrics.items():
            self._writers[identity].add_scalar(name, value, labels)

    def close(self) -> None:
        """Write the rest to disk."""
        for writer in self._writers.values():
            writer.close()


TRACKERS: Mapping[str, Callable[[str, Path], Tracker]] = MappingProxyType(
    {"mlflow": MLflow, "wandb": WeightsAndBiases, "tensorboard": TensorBoard}
)


class Tracking:
    """Sends each record of some runs to a tracker, once, also if they are resumed.

    A tracker that fails is given up with a warning: results do not depend on it, and the same
    command sends what is missing.

    Args:
        kind: A name of ``TRACKERS``.
        folder: Of the results.
        project: The tracker's name for the experiment.

    Raises:
        InputError: If the tracker's library is not installed, or cannot be used.
    """

    def __init__(self, kind: str, folder: Path, project: str) -> None:
        self._kind, self._folder = kind, folder
        try:
            self._tracker: Tracker | None = TRACKERS[kind](project, folder)
        except InputError:
            raise
        except Exception as error:
            raise InputError(f"--track {kind}: {_in_one_line(error)}") from error
        self._sent = self._read()
        self._identities: dict[str, str] = {}

    def update(self, runs: Iterable[tuple[str, Path, Config]]) -> None:
        """Send the new records of some runs, each with its name and folder."""
        for name, folder, config in runs:
            if self._tracker is None:
                return
            try:
                self._send(self._tracker, name, folder, config)
            except Exception as error:  # noqa: BLE001 - a server that is away must not end a run
                self._give_up(error)

    def close(self) -> None:
        """Let the tracker send the rest."""
        if self._tracker is not None:
            try:
                self._tracker.close()
            except Exception as error:  # noqa: BLE001 - as above
                self._give_up(error)

    def _send(self, tracker: Tracker, name: str, folder: Path, config: Config) -> None:
        records = folder / "records.jsonl"
        if not records.is_file():
            return
        sent = self._sent.setdefault(name, {"identity": None, "cycles": 0})
        new = read_journal(records)[0][sent["cycles"] :]
        if not new:
            return
        if name not in self._identities:
            settings = _flat(config.to_table())
            self._identities[name] = tracker.begin(name, settings, sent["identity"])
        for record in new:
            tracker.log(self._identities[name], record["labelled"], _metrics(record))
        sent["identity"] = self._identities[name]
        sent["cycles"] += len(new)
        text = json.dumps({**self._others, self._kind: self._sent}, indent=1)
        write_atomically(self._folder / _SENT, text + "\n")

    def _read(self) -> dict[str, Any]:
        try:
            found = json.loads((self._folder / _SENT).read_text("utf-8"))
            self._others = {kind: dict(runs) for kind, runs in found.items() if kind in TRACKERS}
        except (OSError, ValueError, AttributeError, TypeError):
            self._others = {}
        return self._others.pop(self._kind, {})

    def _give_up(self, error: Exception) -> None:
        self._tracker = None
        warnings.warn(
            f"--track {self._kind} failed ({_in_one_line(error)}) and is given up; the results are "
            "not affected, and the same command sends what is missing",
            SteepestWarning,
            stacklevel=3,
        )


def _metrics(record: Mapping[str, Any]) -> dict[str, float]:
    """Return the numbers of a record that make curves."""
    found: dict[str, float] = {}
    for prefix, metrics in (("", record["metrics"]), ("train_", record["train_metrics"])):
        found |= {
            f"{prefix}{name}": float(value)
            for name, value in metrics.items()
            if isinstance(value, int | float)
        }
    for stage in ("training", "scoring"):
        if record.get(stage):
            found[f"{stage}_seconds"] = record[stage]["seconds"]
    return found


def _flat(table: Mapping[str, Any], where: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in table.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{where}{key}.")
        else:
            flat[f"{where}{key}"] = value
    return flat


def tracked(runs: Iterable[Run]) -> list[tuple[str, Path, Config]]:
    """Return the runs of a comparison as ``Tracking.update`` takes them."""
    return [(f"{run.label}/{run.folder.name}", run.folder, run.config) for run in runs]


def _imported(module: str, command: str) -> Any:  # noqa: ANN401 - a library without types
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return import_module(module)
    except ImportError as error:
        library = command.rpartition(" ")[2]
        raise InputError(f"--track needs {library} ({_in_one_line(error)}): {command}") from error


def _in_one_line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
