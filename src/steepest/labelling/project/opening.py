"""Begins projects from Python and sheets, opens them, and upgrades the folders of old loops."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from steepest.core.files import scratch_beside
from steepest.core.journal import Entry, Journal, read_journal
from steepest.core.lock import FileLock
from steepest.core.parsing import parse_json
from steepest.core.seeds import SampleId, keyed_uniform
from steepest.core.tables import from_table
from steepest.errors import InputError, JournalError, RunFolderError
from steepest.labelling.project.classes import check_apart, check_class_name
from steepest.labelling.project.ledger import Change, ProjectPool, StoredLedger
from steepest.labelling.project.metadata import (
    About,
    LabelForms,
    keep_to_classes,
    list_classes,
    load_about,
    save_about,
)
from steepest.labelling.project.settings import Settings, save_settings
from steepest.labelling.project.store import FILE_NAME, Store
from steepest.pool import Pool

BACKUP = "before-upgrade"
"""The folder in a project with the files of the loop that it was."""

SHEETS, PYTHON = "sheet", "loop"
"""Doors that ask in rounds: `steepest select` with what people fill in, and a program."""

_NEVER_LOOKED = -1
"""The size of a file that no page has looked at."""
_SHEETS_FILES = ("loop.json", "pool.jsonl", "rounds")
_PYTHON_FILES = ("labels.jsonl", "rounds.jsonl")


def begin_project(
    folder: Path, ids: Sequence[SampleId], about: About, classes: Sequence[str] = ()
) -> bool:
    """Make a project, whole or not at all.

    Args:
        folder: Its folder, made if it is not there.
        ids: All samples [N], in their order.
        about: The project's subject.
        classes: The names of the classes.

    Returns:
        False if another process has made one there in the meantime, which is left.
    """
    with made_aside(folder) as store:
        _fill(store, ids, about, classes)
        store.close()
        return put(store.path, folder / FILE_NAME)


def open_pool(folder: Path | str, door: str = "") -> ProjectPool:
    """Open the pool of a project, beside all others who use it.

    Args:
        folder: The project's folder; that of an old loop is upgraded.
        door: Where questions are asked from.

    Raises:
        RunFolderError: If there is no project in it.
        DataError: If its file is damaged.
    """
    folder = Path(folder)
    if not holds_project(folder):
        raise RunFolderError(f"{folder} holds no labelling project; check the name")
    upgrade_folder(folder)
    return ProjectPool(Store(folder / FILE_NAME), door, owns=True)


def holds_project(folder: Path) -> bool:
    """Decide whether a folder holds a project, or an old loop that becomes one."""
    return (folder / FILE_NAME).is_file() or _is_sheets(folder) or _is_python(folder)


def check_for_page(store: Store, photos: Path) -> None:
    """Refuse a project that a page cannot show; from then on it takes classes alone.

    Args:
        store: The project's file.
        photos: The folder of the images.

    Raises:
        InputError: Saying how it can be labelled.
    """
    folder = store.path.parent
    with store.reading() as connection:
        about, names = load_about(connection), list_classes(connection)
    if about.task == "segmentation":
        raise InputError(f"{folder} is for label maps: label it by sheets or by Label Studio")
    if about.numbered:
        raise InputError(f"{folder} is about rows of an array: label it by sheets or from Python")
    pool = Path(about.pool) if about.pool else photos
    if pool.is_dir() and pool.resolve() != photos.resolve():
        raise InputError(f"{folder} is the project of {pool}: choose another project folder")
    for number, name in enumerate(names):
        check_class_name(name)
        check_apart(name, names[:number])
    keep_to_classes(store)


def upgrade_folder(folder: Path) -> None:
    """Make a project of an old loop, once: its files are kept in their own folder.

    Args:
        folder: The folder of a project or loop, or any other, which is left alone.

    Raises:
        RunFolderError: If the loop is in use, or cannot be read.
        JournalError: If a file of it is damaged.
    """
    if (folder / FILE_NAME).is_file():
        if (folder / BACKUP).is_dir():
            _put_away(folder)  # An upgrade was cut short at its end.
        return
    sheets, python = _is_sheets(folder), _is_python(folder)
    if sheets and python:
        raise RunFolderError(
            f"{folder} holds two old loops: move {' and '.join(_PYTHON_FILES)} into a folder of "
            "their own"
        )
    if not (sheets or python):
        return
    with FileLock(folder / "loop.json", shown=folder):
        if not (folder / FILE_NAME).is_file():
            _upgrade(folder, _read_sheets(folder) if sheets else _read_python(folder))


@dataclass(frozen=True)
class _OldLoop:
    """Contents of an old loop's files.

    Attributes:
        journal: The file of its pool.
        door: Where it asked from.
        about: The project's subject.
        classes: The names of its classes.
        rounds: The record of each round by its number.
    """

    journal: str
    door: str
    about: About
    classes: tuple[str, ...]
    rounds: Mapping[int, Entry]


@dataclass(frozen=True)
class _OldSettings:
    """The file ``loop.json``."""

    task: str
    classes: tuple[str, ...]
    pool: str
    format: int = 1
    array: Mapping[str, Any] | None = None


def _is_sheets(folder: Path) -> bool:
    return (folder / "loop.json").is_file() and (folder / "pool.jsonl").is_file()


def _is_python(folder: Path) -> bool:
    labels, rounds = (folder / name for name in _PYTHON_FILES)
    try:
        with labels.open("rb") as file:
            first = file.readline(100)
    except OSError:
        first = b""
    # A page may have written its labels under that name.
    return first.startswith(b'{"entry":"pool",') or rounds.is_file()


def _upgrade(folder: Path, old: _OldLoop) -> None:
    # It holds the journal's lock: no program of an earlier version goes on meanwhile.
    with _open_journal(folder, old.journal) as pool, made_aside(folder) as store:
        if old.door == PYTHON:
            _check_past(folder, pool, list(old.rounds.values()))
        entries, _ = read_journal(folder / old.journal)
        ids = pool.ids()
        about = replace(old.about, numbered=isinstance(ids[0], int))
        _fill(store, ids, about, old.classes)
        with store.writing() as connection:
            forms = LabelForms(connection, exact=True)
            for entry in entries[1:]:
                Change(connection, entry, old.door, forms).carry_out()
            connection.executemany(
                "INSERT INTO rounds VALUES (?, ?, 0, ?)",
                [(old.door, number, json.dumps(table)) for number, table in old.rounds.items()],
            )
        new = StoredLedger(store, old.door)
        if (new.counts(), new.labelled()) != (pool.counts(), pool.labelled()):
            raise RunFolderError(f"{folder} cannot be upgraded as it is; keep a copy and report it")
        store.close()
        _keep_copies(folder)
        put(store.path, folder / FILE_NAME)
        _put_away(folder)


def _open_journal(folder: Path, name: str) -> Pool:
    try:
        return Pool.open(folder / name)
    except JournalError as error:
        table = folder / "labels.csv"
        if not table.exists():
            raise
        remedy = f"or begin another loop and take {table} into it by `steepest ingest`"
        raise JournalError(f"{error}, {remedy}") from error


def _read_sheets(folder: Path) -> _OldLoop:
    file = folder / "loop.json"
    try:
        told = from_table(_OldSettings, parse_json(file.read_text(encoding="utf-8")))
        about = from_table(
            About,
            {
                "task": told.task,
                "pool": told.pool,
                "array": told.array,
            },
        )
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise RunFolderError(f"{file} is damaged ({error}); restore it from a copy") from error
    if told.format != 1:
        raise RunFolderError(f"{file} has format {told.format}; use the steepest it is of")
    rounds: dict[int, Entry] = {}
    for path in sorted((folder / "rounds").glob("round-*.json")):
        try:
            rounds[int(path.stem.removeprefix("round-"))] = parse_json(path.read_text("utf-8"))
        except (OSError, ValueError) as error:
            raise JournalError(f"{path}: is damaged ({error}); restore it from a copy") from error
    return _OldLoop("pool.jsonl", SHEETS, about, told.classes, rounds)


def _read_python(folder: Path) -> _OldLoop:
    labels, file = (folder / name for name in _PYTHON_FILES)
    if not labels.is_file():
        raise RunFolderError(f"{folder} has rounds but no {labels.name}: bring it back from a copy")
    records = Journal(file).entries if file.is_file() else []
    rounds = [{k: v for k, v in record.items() if k != "chain"} for record in records]
    about = About(named=None, classes="free")
    return _OldLoop(labels.name, PYTHON, about, (), dict(enumerate(rounds, start=1)))


def _check_past(folder: Path, pool: Pool, rounds: Sequence[Entry]) -> None:
    """Raise on journals that contradict each other."""
    touched: set[SampleId] = set()
    latest = 0
    for event in pool.events():
        touched.add(event.id)
        latest = max(latest, event.cycle) if event.verb == "query" else latest
    lacking = ""
    numbers = [record.get("number") for record in rounds]
    # A round asks before it is written down, so that one more may have begun.
    if numbers != list(range(1, len(rounds) + 1)) or latest > len(rounds) + 1:
        lacking = _PYTHON_FILES[1]
    elif any(r["labelled"] > len(touched) or not touched.issuperset(r["asked"]) for r in rounds):
        lacking = _PYTHON_FILES[0]
    if lacking:
        raise RunFolderError(
            f"{folder}: lines of {lacking} are missing or twice: restore it from a copy, or choose "
            "another folder and give it the labels of this one by labels="
        )


def _keep_copies(folder: Path) -> None:
    """Copy an old loop's files, and show the copy only when it is whole."""
    place = folder / BACKUP
    if place.exists():
        return
    scratch = scratch_beside(place)
    scratch.mkdir()
    for name in (*_SHEETS_FILES, *_PYTHON_FILES):
        if (folder / name).is_dir():
            shutil.copytree(folder / name, scratch / name)
        elif (folder / name).is_file():
            shutil.copy2(folder / name, scratch / name)
    scratch.rename(place)


def _put_away(folder: Path) -> None:
    """Move an old loop's files over their copies, which a power cut may have cost their content."""
    for name in (*_SHEETS_FILES, *_PYTHON_FILES):
        file, kept = folder / name, folder / BACKUP / name
        if file.is_dir() and kept.is_dir():
            for part in file.iterdir():
                part.replace(kept / part.name)
            file.rmdir()
        elif file.is_file() and kept.is_file():
            file.replace(kept)


@contextmanager
def made_aside(folder: Path) -> Iterator[Store]:
    """Yield the store of a project to be, out of sight of everybody."""
    scratch = scratch_beside(folder / FILE_NAME)
    try:
        scratch.mkdir(parents=True)
    except OSError as error:
        raise RunFolderError(
            f"{folder} cannot be used ({error.strerror}); choose another folder"
        ) from error
    try:
        store = Store(scratch / FILE_NAME)
        try:
            yield store
        finally:
            store.close()
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _fill(store: Store, ids: Sequence[SampleId], about: About, classes: Sequence[str]) -> None:
    settings = Settings(multi_label=about.task == "multi-label")
    shuffle, chance = [0.0] * len(ids), [1.0] * len(ids)
    if not about.numbered:
        # As the page has them.
        shuffle = keyed_uniform(settings.seed, "labelling order", ids)[:, 0].tolist()
        chance = keyed_uniform(settings.seed, "validation", ids)[:, 0].tolist()
    with store.writing() as connection:
        save_settings(connection, settings)
        save_about(connection, about)
        connection.executemany("INSERT INTO classes VALUES (?, ?)", enumerate(classes))
        connection.executemany(
            """INSERT INTO images (id, size_bytes, changed_ns, seen, held_out, shuffle)
            VALUES (?, ?, 0, 0, ?, ?)""",
            (
                (str(sample), _NEVER_LOOKED, int(out < settings.validation_share), turn)
                for sample, out, turn in zip(ids, chance, shuffle, strict=True)
            ),
        )


def put(made: Path, place: Path) -> bool:
    """Give a file its name, unless another has it; what is in it is on the disk before."""
    with made.open("rb+") as file:
        os.fsync(file.fileno())
    try:
        os.link(made, place)
    except FileExistsError:
        return False
    except OSError:  # No links on this disk.
        if place.exists():
            return False
        made.rename(place)
    return True
