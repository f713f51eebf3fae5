"""The folder of one run: its configuration, records, pool and weights.

A cycle's weights are written before its record, and its record before its labels enter the pool.
The record is what counts: whatever comes after it is done again from it, whatever came before it
is made again.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from steepest.core.files import SCRATCH_PREFIX, write_atomically
from steepest.core.journal import Journal, read_journal
from steepest.core.parsing import parse_json
from steepest.core.seeds import SampleId
from steepest.data.identity import comparable
from steepest.errors import DroppedEntryWarning, InputError, JournalError, RunFolderError
from steepest.experiment.comparison_file import first_difference, to_go_on
from steepest.experiment.config import Config, completed
from steepest.experiment.environment import changed_modules
from steepest.experiment.record import Record
from steepest.experiment.seeding import Member, suffix_of, weights_path
from steepest.modules.fingerprint import fingerprint
from steepest.modules.weights import load_weights, save_weights
from steepest.pool import FileLock, Pool
from steepest.strategies.base import STRATEGIES
from steepest.tasks import TASKS
from steepest.training.checkpoint import Checkpoint
from steepest.version import __version__


class RunFolder:
    """Folder of one run, locked against other processes while it is open.

    Args:
        path: The folder; made if it is not there.
        config: The run's configuration.
        data: The identity of the run's data.

    Raises:
        RunFolderError: If the folder holds something else, or is in use.
    """

    def __init__(self, path: Path, config: Config, data: Mapping[str, Any]) -> None:
        self.path = path
        self._config = config
        _check_owner(path, config)
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RunFolderError(f"{path} cannot be made ({error.strerror})") from error
        self._lock = FileLock(path / "run", shown=path)
        for scratch in path.rglob(f"{SCRATCH_PREFIX}*"):
            scratch.unlink(missing_ok=True)  # A kill left it, and whoever holds the lock is alone.
        try:
            _check_owner(path, config)  # Another process may have begun here meanwhile.
            _check_data(path / "data.json", data)
            write_atomically(path / "config.json", json.dumps(config.to_table(), indent=1) + "\n")
            self._journal = Journal(path / "records.jsonl")
            where = str(self._journal.path)
            self.records = [Record.from_table(entry, where) for entry in self._journal.entries]
            _check_order(self.records, where)
            _check_origin(self.records, config, where)
            if (
                len(self.records) < config.loop.cycles
            ):  # A complete run tells what it was made with.
                write_atomically(path / "data.json", json.dumps(data, indent=1) + "\n")
        except BaseException:
            self._lock.release()
            raise

    def close(self) -> None:
        """Let others in."""
        self._lock.release()

    def open_pool(self, ids: Sequence[SampleId], *, known: bool) -> Pool:
        """Open the run's pool, or begin it.

        Args:
            ids: The samples [N].
            known: Whether all labels can be had again without asking anybody. Then a file without
                one whole line is started again, and the records say what was chosen.
        """
        path = self.path / "pool.jsonl"
        if path.exists() and not read_journal(path)[0] and (known or not self.records):
            Journal(path)  # Half a line is set aside.
            path.unlink()
            if self.records:
                warnings.warn(
                    f"{path} was empty, and is made anew from the records",
                    DroppedEntryWarning,
                    stacklevel=2,
                )
        try:
            return Pool.open(path) if path.exists() else Pool.create(ids, path)
        except JournalError as error:
            if read_journal(path)[0]:
                raise
            again = "or delete it, and whoever labels is asked for everything again"
            raise JournalError(f"{error}, {again}") from error

    def save_model(self, model: nn.Module, cycle: int, member: Member = 0) -> None:
        """Keep the weights that a cycle ended with."""
        save_weights(model, weights_path(self.path, cycle, member))

    def load_model(self, model: nn.Module, cycle: int, member: Member = 0) -> None:
        """Restore the weights that a cycle ended with.

        Raises:
            JournalError: If they are gone or damaged.
        """
        path = weights_path(self.path, cycle, member)
        remedy = "restore the file from a copy, or remove this run and make it again"
        try:
            load_weights(model, path)
        except InputError as error:
            raise JournalError(f"{error}; {remedy}") from error
        record = self.records[cycle]
        recorded = record.model if member == 0 else record.company.get(str(member))
        if recorded and self._tells(record) and fingerprint(model) != recorded:
            raise JournalError(
                f"{path} does not hold the weights that cycle {cycle} ended with; {remedy}"
            )

    def _tells(self, record: Record) -> bool:
        """Say whether a fingerprint on record is what the same weights have in this process."""
        now = {"steepest": __version__, "torch": torch.__version__}
        same = all(record.environment.get(key) == value for key, value in now.items())
        return same and not changed_modules(self.path, self._config)

    def checkpoint(self, member: int = 0) -> Checkpoint:
        """Return where a training keeps its state until its cycle is committed."""
        return Checkpoint(self.path / f"training{suffix_of(member)}.safetensors")

    def commit(self, record: Record, *, keep_all_weights: bool) -> None:
        """Write a cycle's record; from here on the cycle has happened."""
        self._journal.append(record.to_table())
        self.records.append(record)
        for state in self.path.glob("training*.safetensors"):
            state.unlink(missing_ok=True)
        if not keep_all_weights and record.cycle > 0:
            for old in (self.path / "weights").glob(f"cycle-{record.cycle - 1:03d}*.safetensors"):
                old.unlink(missing_ok=True)

    def amend(self, record: Record) -> None:
        """Put a record in the place of the last one, in one step."""
        scratch = Journal(self._journal.path.with_name(f"{SCRATCH_PREFIX}records"))
        for entry in (*self._journal.entries[:-1], record.to_table()):
            scratch.append(entry)
        scratch.path.replace(self._journal.path)
        self._journal = Journal(self._journal.path)
        self.records[-1] = record


def _check_order(records: Sequence[Record], where: str) -> None:
    """Refuse records of which one is missing, doubled or out of place: others would follow them."""
    for due, record in enumerate(records):
        if record.cycle != due:
            raise JournalError(
                f"{where}: entry {due + 1} is cycle {record.cycle} where {due} is due; restore the "
                "file from a copy, or remove this run and make it again"
            )


def _check_origin(records: Sequence[Record], config: Config, where: str) -> None:
    """Refuse records of another seed or strategy, or without the metric that they are made for."""
    due = {"seed": config.seed, "strategy": STRATEGIES.get(config.strategy.name).name}
    headline = TASKS.get(config.task.name).headline
    for record in records:
        told = {"seed": record.seed, "strategy": record.strategy}
        if told != due or headline not in record.metrics:
            wrong = first_difference(told, due) if told != due else f"it has no {headline}"
            raise JournalError(
                f"{where}: cycle {record.cycle} is not of this run ({wrong}); restore the file "
                "from a copy, or remove this run and make it again"
            )


def count_lines(path: Path) -> int:
    """Return how many cycles of a run are written, at a glance: for showing progress only."""
    try:
        return (path / "records.jsonl").read_bytes().count(b"\n")
    except OSError:
        return 0


def count_records(path: Path) -> int:
    """Return how many cycles of a run are complete, without opening it."""
    return len(read_journal(path / "records.jsonl")[0])


def _check_owner(path: Path, config: Config) -> None:
    if path.exists() and not path.is_dir():
        raise RunFolderError(f"{path} is a file: choose another --out")
    stored = path / "config.json"
    if not stored.exists():
        # A kill may have left a lock, or a configuration half-written.
        if path.exists() and any(
            p.name not in {"run.lock", stored.name} and not p.name.startswith(SCRATCH_PREFIX)
            for p in path.iterdir()
        ):
            raise RunFolderError(
                f"{path} is not empty and holds no run: choose another --out or an empty folder"
            )
        return
    stored_table = json.loads(json.dumps(completed(_read_table(stored))))
    wanted_table = json.loads(json.dumps(config.to_table()))
    found, wanted = to_go_on(stored_table, wanted_table, longer=True)
    if found != wanted:
        raise RunFolderError(
            f"{path} holds a run of another configuration ({first_difference(found, wanted)}): "
            "choose another --out, or give the configuration it was started with"
        )


def _check_data(path: Path, data: Mapping[str, Any]) -> None:
    """Refuse to continue with other data: ids would mean other samples."""
    if not path.exists():
        return
    found = _read_table(path)
    wanted = comparable(json.loads(json.dumps(data)), found)
    if found != wanted:
        raise RunFolderError(
            f"{path.parent} holds a run on other data ({first_difference(found, wanted)}): "
            "bring the data back as it was, or choose another --out"
        )


def _read_table(path: Path) -> dict[str, Any]:
    try:
        found = parse_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        found = None
    if not isinstance(found, dict):
        raise RunFolderError(
            f"{path} is damaged: restore the file from a copy, or choose another --out"
        )
    return found
