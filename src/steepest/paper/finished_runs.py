"""Finds complete runs, and compares them with the wanted configuration."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path, PureWindowsPath
from typing import Any

from steepest.core.journal import decode_journal
from steepest.core.parsing import parse_json
from steepest.errors import InputError, SteepestError
from steepest.experiment.comparison_file import FASTER, GOING_ON, without
from steepest.experiment.config import Config, completed
from steepest.experiment.record import Record
from steepest.experiment.report.store import RECORDS, Store, stores_below
from steepest.experiment.seeding import Member, weights_path
from steepest.strategies import create

_SILENT = ("name", "loop.keep_weights", "data.options.workers", "device")
"""Settings in which a run may differ without a word; in the others of ``alike`` it says so."""


@dataclass(frozen=True)
class FinishedRun:
    """A complete run of one strategy and seed.

    Attributes:
        setting: The experiment, as the artefact calls it.
        strategy: The strategy's name.
        config: The request.
        store: Its files.
        differences: In what its own configuration differs, a phrase each.
        not_taken: Folders of other complete runs of the same experiment and seed.
    """

    setting: str
    strategy: str
    config: Config
    store: Store
    differences: tuple[str, ...] = ()
    not_taken: tuple[Path, ...] = ()

    @property
    def folder(self) -> Path:
        """Folder of its files, or the one they would be unpacked to."""
        return self.store.place

    @property
    def seed(self) -> int:
        """Its seed."""
        return self.config.seed

    @property
    def cycles(self) -> int:
        """Number of trainings."""
        return self.config.loop.cycles

    @property
    def init(self) -> str:
        """Weights at the start of a training."""
        return self.config.loop.init

    @property
    def key(self) -> str:
        """Unique key, safe in a path.

        The models that it trained are part of it: what was computed from a run is not taken for
        another one of the same name, such as one that was made again elsewhere.
        """
        models = hashlib.sha256("".join(record.model for record in self.records).encode())
        name = f"{self.config.name}-{self.init}/{self.strategy}/seed-{self.seed}"
        return f"{name}-{models.hexdigest()[:12]}"

    @cached_property
    def records(self) -> tuple[Record, ...]:
        """Its records, one per cycle."""
        entries, _ = decode_journal(self.store.read(RECORDS), self.folder / RECORDS)
        return tuple(Record.from_table(entry, str(self.folder / RECORDS)) for entry in entries)

    def weights(self, cycle: int, member: Member = 0) -> Path:
        """Return where the weights of a cycle are, if they were kept."""
        return weights_path(self.folder, cycle, member)

    @property
    def has_weights(self) -> bool:
        """Whether the weights of every cycle were kept."""
        return all(self.weights(cycle).is_file() for cycle in range(self.cycles))


@dataclass(frozen=True)
class StoredRun:
    """A run on disk, of whatever experiment."""

    store: Store
    table: Mapping[str, Any]
    done: int

    @cached_property
    def _flat(self) -> dict[str, Any]:
        return _told(self.table)

    def match(self, wanted: Config) -> tuple[str, ...] | None:
        """Return the differences from the wanted run; None if it is another experiment."""
        name = (self.table.get("strategy") or {}).get("name")
        if self.done < wanted.loop.cycles or name != wanted.strategy.name:
            return None
        found, asked = self._flat, _told(json.loads(json.dumps(wanted.to_table())))
        departures = []
        for key in sorted(found.keys() | asked.keys()):
            here, there = asked.get(key), found.get(key)
            if here == there:
                continue
            if key not in (*GOING_ON, *FASTER) and not _same_file(key, here, there):
                return None
            departures.append(f"{key} {_said(there)} instead of {_said(here)}")
        return tuple(departures)


def stored_runs(folders: Sequence[Path]) -> list[StoredRun]:
    """Return every run with at least one record below some folders, also in archives there.

    Raises:
        InputError: If one is no folder.
        JournalError: If an archive is damaged.
    """
    for folder in folders:
        if not folder.is_dir():
            raise InputError(f"--from {folder}: no such folder")
    return [run for folder in folders for run in _below(folder)]


def find_run(
    setting: str, strategy: str, wanted: Config, stored: Sequence[StoredRun], *, weights: bool
) -> FinishedRun | None:
    """Return the run that differs least from the wanted one; None if there is none.

    Args:
        setting: The artefact's name for the experiment.
        strategy: The strategy's name.
        wanted: The configuration.
        stored: Where to look; the first of equals is taken.
        weights: Whether the weights of every cycle must be there.
    """
    found: dict[Path, FinishedRun] = {}
    for run in stored:
        differences = run.match(wanted)
        if differences is None:
            continue
        one = FinishedRun(setting, strategy, wanted, run.store, differences)
        if one.has_weights or not weights:
            found.setdefault(one.folder.resolve(), one)
    if not found:
        return None
    best = min(found.values(), key=lambda one: len(one.differences))
    others = (one.folder for one in found.values() if one is not best)
    return replace(best, not_taken=tuple(others))


def _below(folder: Path) -> Iterator[StoredRun]:
    for run in (run for store in stores_below(folder) for run in store.runs()):
        try:
            table = parse_json(run.read("config.json").decode("utf-8"))
            done = len(decode_journal(run.read(RECORDS), run.place / RECORDS)[0])
        except (OSError, ValueError, SteepestError):
            continue  # Damaged, or no run: then it is not what is looked for.
        if isinstance(table, dict) and done:
            yield StoredRun(run, json.loads(json.dumps(completed(table))), done)


def _told(table: Mapping[str, Any]) -> dict[str, Any]:
    """Return a configuration as one table, without irrelevant keys."""
    return _flat(without(table, _SILENT))


def _flat(table: Mapping[str, Any], where: str = "") -> dict[str, Any]:
    """Return a configuration as one table; a strategy has all its options in it."""
    flat: dict[str, Any] = {}
    for key, value in table.items():
        name = f"{where}{key}"
        if name == "strategy" and isinstance(value, Mapping):
            flat["strategy"] = _strategy(value)
        elif isinstance(value, Mapping) and key != "options":
            flat.update(_flat(value, f"{name}."))
        else:
            flat[name] = value
    return flat


def _strategy(part: Mapping[str, Any]) -> Any:  # noqa: ANN401
    try:
        made = create(str(part.get("name")), part.get("options") or {})
    except SteepestError:
        return dict(part)
    return {"name": made.name, "options": made.options()}


def _same_file(key: str, here: object, there: object) -> bool:
    """Say whether weights to begin with are, by the file's name, the same elsewhere."""
    if key != "model.weights" or not (isinstance(here, str) and isinstance(there, str)):
        return False
    # A run may be of another machine, and its path of another system.
    return PureWindowsPath(here).name == PureWindowsPath(there).name


def _said(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
