"""Read a comparison, or a single run, from its files."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from steepest.core.journal import Entry, decode_journal
from steepest.core.parsing import parse_json
from steepest.core.tables import check_known_fields
from steepest.errors import JournalError, RunFolderError, SteepestError
from steepest.experiment.comparison import (
    Comparison,
    Run,
    headline_metric,
    measured_as,
    task_name,
)
from steepest.experiment.record import Record
from steepest.experiment.report.store import COMPARISON, RECORDS, Store, open_store
from steepest.tasks.base import TASKS


def read_comparison(path: Path | str) -> Comparison:
    """Read a comparison, or a single run.

    Args:
        path: Its folder, or the archive that ``steepest pack`` made of it.

    Raises:
        RunFolderError: If the folder is neither.
        JournalError: If a record or the archive is damaged.
    """
    store = open_store(Path(path))
    if store.has(COMPARISON):
        return _read_many(store)
    if store.has(RECORDS):
        return _read_single(store)
    raise RunFolderError(
        f"{path} holds neither {COMPARISON} nor {RECORDS}: "
        "name the folder that `steepest compare` or `steepest run` wrote"
    )


def _read_many(store: Store) -> Comparison:
    head = _read_object(store, COMPARISON)
    try:
        strategies = tuple(str(name) for name in head["strategies"])
        seeds = tuple(int(seed) for seed in head["seeds"])
    except (KeyError, TypeError, ValueError) as error:
        raise JournalError(
            f"{store.place / COMPARISON}: 'strategies' or 'seeds' is missing or not a list; "
            "restore the file from a copy"
        ) from error
    config = _table(head.get("config"))
    task = task_name(config)
    folders = {(name, seed): f"runs/{name}/seed-{seed}/" for name in strategies for seed in seeds}
    runs = {
        key: Run(*key, _read_records(store, folder + RECORDS, task))
        for key, folder in folders.items()
    }
    return Comparison(
        name=str(head.get("name") or store.place.resolve().name),
        strategies=strategies,
        seeds=seeds,
        runs=runs,
        config=config,
        commands=_commands(head),
        versions=_table(head.get("versions")),
        variants={
            label: {**table, "options": _table(table.get("options"))}
            for label, variant in _table(head.get("variants")).items()
            for table in (_table(variant),)
        },
        task=measured_as(task, _first_metrics(runs.values())),
        data=_data_of(store, (folder + "data.json" for folder in folders.values())),
    )


def _read_single(store: Store) -> Comparison:
    config = _read_object(store, "config.json") if store.has("config.json") else {}
    entries = _read_records(store, RECORDS, task_name(config))
    if not entries:
        raise RunFolderError(
            f"{store.place / RECORDS} has no finished cycle yet: "
            "report again once the run has got on"
        )
    run = Run(str(entries[0].get("strategy", "run")), int(entries[0].get("seed", 0)), entries)
    return Comparison(
        name=str(config.get("name") or store.place.resolve().name),
        strategies=(run.strategy,),
        seeds=(run.seed,),
        runs={(run.strategy, run.seed): run},
        config=config,
        commands=_commands(config),
        versions={},
        single=True,
        task=measured_as(task_name(config), _first_metrics([run])),
        data=_data_of(store, ["data.json"]),
    )


def _data_of(store: Store, names: Iterable[str]) -> dict[str, Any]:
    """Return what the first run that says so was made with; runs of older versions do not."""
    return next((_read_object(store, name) for name in names if store.has(name)), {})


def _first_metrics(runs: Iterable[Run]) -> Mapping[str, Any]:
    """Return the metrics of any record; all are of one task."""
    return next((entry["metrics"] for run in runs for entry in run.entries), {})


def _commands(head: Mapping[str, Any]) -> tuple[str, ...]:
    """Return every command of a description once; older versions kept the first alone."""
    calls = head.get("calls")
    commands = [_table(call).get("command") for call in calls] if isinstance(calls, list) else []
    return tuple(dict.fromkeys(str(said) for said in (head.get("command"), *commands) if said))


def _read_records(store: Store, name: str, task: str) -> tuple[Entry, ...]:
    if not store.has(name):
        return ()
    # A torn last line is a cycle that a crash cut short; the loop sets it aside when it resumes.
    entries, _ = decode_journal(_read(store, name), store.place / name)
    for number, entry in enumerate(entries):
        problem = _problem(entry, number, task)
        if problem:
            raise JournalError(
                f"{store.place / name}: entry {number + 1} {problem}; "
                "restore the file from a copy, or remove this run and make it again"
            )
    return tuple(entries)


def _problem(entry: Entry, number: int, task: str) -> str:
    """Say what keeps an entry from being a record of that cycle, or nothing."""
    if entry.get("cycle") != number:
        return f"is cycle {entry.get('cycle')!r} where {number} is due"
    if not isinstance(entry.get("labelled"), int):
        return "has no number 'labelled'"
    if not isinstance(entry.get("selected"), list):
        return "has no list 'selected'"
    if misfit := _misfit(entry):
        return misfit
    metrics = _table(entry.get("metrics"))
    metric = headline_metric(measured_as(task, metrics))
    value = metrics.get(metric)
    if isinstance(value, int | float) and math.isfinite(value):
        return ""
    # The record of a task that is not known here may well be whole.
    strange = "" if task in TASKS.names() else f" (import the module that registers task {task!r})"
    if ":" in task:
        strange = f" (task {task!r} has a headline that no task of the package has)"
    return f"has no finite {metric}{strange}"


def _misfit(entry: Entry) -> str:
    """Say what of an entry cannot be what a run wrote, or nothing."""
    try:
        check_known_fields(Record, entry)
    except SteepestError as error:
        return f"is not as a run writes it ({error})"
    for part in ("metrics", "train_metrics"):
        for name, value in _table(entry.get(part)).items():
            if not _is_metric(value):
                return f"has neither a number nor a list of numbers as {part}.{name}"
    return ""


def _is_metric(value: object) -> bool:
    parts = value if isinstance(value, list) else [value]
    return all(part is None or isinstance(part, int | float) for part in parts)


def _read_object(store: Store, name: str) -> dict[str, Any]:
    path = store.place / name
    try:
        value = parse_json(_read(store, name).decode("utf-8"))
    except ValueError as error:
        raise JournalError(f"{path}: cannot be read ({error}); restore it from a copy") from error
    if not isinstance(value, dict):
        raise JournalError(f"{path}: is not a JSON object; restore it from a copy")
    return value


def _read(store: Store, name: str) -> bytes:
    try:
        return store.read(name)
    except OSError as error:
        reason = error.strerror or error
        raise JournalError(
            f"{store.place / name}: cannot be read ({reason}); restore it from a copy"
        ) from error


def _table(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
