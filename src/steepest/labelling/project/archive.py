"""A project as JSON lines, and back: a line for each row, and for each map and file of weights."""

from __future__ import annotations

import base64
import binascii
import json
import re
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import IO, Any

from steepest.core.files import replacing, write_atomically
from steepest.core.lock import FileLock
from steepest.core.parsing import parse_json
from steepest.errors import InputError, first_line
from steepest.labelling.project.opening import holds_project, made_aside, put, upgrade_folder
from steepest.labelling.project.schema import TABLES, VERSION
from steepest.labelling.project.store import FILE_NAME, Store

_HEADER = "steepest project"
_FILES = ("maps/*.png", "models/*.safetensors", "samples.json")
_FILE_NAME = re.compile(r"maps/[0-9a-f]{32}\.png|models/[\w-]+\.safetensors|samples\.json")
_PASSING = frozenset({"assignments"})
"""What holds for some minutes: who looks at what."""


def write_archive(folder: Path, file: Path, *, weights: bool = True) -> Counter[str]:
    """Write a consistent snapshot of a project, while others may continue.

    Args:
        folder: The project's folder.
        file: The file to write.
        weights: Whether the weights of models are part of it.

    Returns:
        How many rows of each table, and how many files, were written.

    Raises:
        InputError: If there is no project, or the file cannot be written.
    """
    if not holds_project(folder):
        raise InputError(f"{folder} holds no labelling project; check the name")
    upgrade_folder(folder)
    store = Store(folder / FILE_NAME)
    counts: Counter[str] = Counter()
    try:
        with store.reading() as connection, replacing(file) as out:
            _say(out, {_HEADER: VERSION})
            for table in _tables():
                for row in connection.execute(f"SELECT * FROM {table}"):  # noqa: S608
                    _say(out, {"table": table, **dict(row)})
                    counts[table] += 1
            for path in _list_files(folder, weights=weights):
                content = base64.b64encode(path.read_bytes()).decode("ascii")
                _say(out, {"file": path.relative_to(folder).as_posix(), "base64": content})
                counts["files"] += 1
    except OSError as error:
        raise InputError(f"{file}: cannot be written ({error.strerror or error})") from error
    finally:
        store.close()
    return counts


def read_archive(file: Path, folder: Path) -> Counter[str]:
    """Make a project from an archive, all of it or nothing.

    Args:
        file: The file.
        folder: The project's folder to be: empty, or not there yet.

    Returns:
        How many rows of each table, and how many files, were read.

    Raises:
        InputError: If the folder holds something, or a line is none of ours; names the line.
    """
    if folder.exists() and (not folder.is_dir() or any(_besides_locks(folder))):
        raise InputError(f"{folder} is there already; choose another folder")
    counts: Counter[str] = Counter()
    with FileLock(folder / "loop", shown=folder), made_aside(folder) as store:
        files: list[tuple[str, bytes]] = []
        with store.writing() as connection:
            connection.execute("PRAGMA defer_foreign_keys = ON")
            columns = {table: _columns(connection, table) for table in _tables()}
            for where, entry in _read_lines(file):
                try:
                    counts[_take(connection, columns, entry, files)] += 1
                except (ValueError, TypeError, sqlite3.Error) as error:
                    raise InputError(f"{file}, {where}: {first_line(error)}") from error
            broken = connection.execute("PRAGMA foreign_key_check").fetchone()
            if broken is not None:
                raise InputError(f"{file}: a line of {broken[0]} names a {broken[2]} that is gone")
        store.close()
        for name, content in files:
            write_atomically(folder / name, content)
        if not put(store.path, folder / FILE_NAME):
            raise InputError(f"{folder} is there already; choose another folder")
    return counts


def _take(
    connection: sqlite3.Connection,
    columns: dict[str, tuple[str, ...]],
    entry: dict[str, Any],
    files: list[tuple[str, bytes]],
) -> str:
    """Import one line, and return its subject."""
    if "file" in entry:
        name = entry["file"]
        if not isinstance(name, str) or not _FILE_NAME.fullmatch(name):
            raise ValueError(f"file {name!r} is none of a project's")
        try:
            files.append((name, base64.b64decode(entry["base64"], validate=True)))
        except (KeyError, binascii.Error) as error:
            raise ValueError(f"file {name!r} is damaged") from error
        return "files"
    table = entry.pop("table", None)
    if table not in columns:
        raise ValueError(f"table {table!r} is none of a project's")
    if tuple(entry) != columns[table]:
        raise ValueError(f"has other columns than {', '.join(columns[table])}")
    marks = ", ".join("?" * len(entry))
    connection.execute(f"INSERT INTO {table} VALUES ({marks})", tuple(entry.values()))  # noqa: S608
    return str(table)


def _read_lines(file: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the place of each line after the first, and what it says."""
    number = 0
    try:
        with file.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, start=1):
                where = f"line {number}"
                entry = _parse(line, f"{file}, {where}")
                if number > 1:
                    yield where, entry
                elif entry != {_HEADER: VERSION}:
                    break
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{file}: cannot be read ({first_line(error)})") from error
    if number < 2:
        raise InputError(
            f"{file}: does not begin as a project of this version; read it by the steepest that "
            "wrote it"
        )


def _parse(line: str, where: str) -> dict[str, Any]:
    try:
        entry = parse_json(line)
    except ValueError as error:
        raise InputError(f"{where}: is no JSON ({first_line(error)})") from error
    if not isinstance(entry, dict):
        raise InputError(f"{where}: is no line of a project")
    return entry


def _tables() -> tuple[str, ...]:
    with closing(sqlite3.connect(":memory:")) as ours:
        for statement in TABLES:
            ours.execute(statement)
        rows = ours.execute(
            "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
        ).fetchall()
    return tuple(name for (name,) in rows if name not in _PASSING)


def _columns(connection: sqlite3.Connection, table: str) -> tuple[str, ...]:
    return tuple(row["name"] for row in connection.execute(f"PRAGMA table_info({table})"))


def _list_files(folder: Path, *, weights: bool) -> list[Path]:
    kinds = [kind for kind in _FILES if weights or not kind.startswith("models")]
    found = [path for kind in kinds for path in sorted(folder.glob(kind))]
    return [path for path in found if _FILE_NAME.fullmatch(path.relative_to(folder).as_posix())]


def _besides_locks(folder: Path) -> Iterator[Path]:
    return (path for path in folder.iterdir() if path.suffix != ".lock")


def _say(out: IO[bytes], entry: dict[str, Any]) -> None:
    out.write(json.dumps(entry, ensure_ascii=False).encode() + b"\n")
