"""Labels as they stand in files: a table, JSON lines, or folders named by classes."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal, get_args

from steepest.errors import InputError
from steepest.labelling.project.classes import SEPARATOR, ClassList
from steepest.labelling.project.listing import is_sample_name

Format = Literal["csv", "jsonl", "folder"]

Given = tuple[str, str, list[str]]
"""Where it stands, a sample's id and the names of its classes."""

_BETWEEN_CELLS = (",", ";", "\t")
"""What stands between cells, as spreadsheets of various countries write it."""

_GUESSES: dict[str, Format] = {".csv": "csv", ".jsonl": "jsonl", "": "folder"}


def choose_format(path: Path, given: str | None) -> Format:
    """Return the format that is asked for, or that the path suggests.

    Raises:
        InputError: If it is none of ours.
    """
    guess = "folder" if path.is_dir() else _GUESSES.get(path.suffix.lower())
    for known in get_args(Format):
        if known == (given or guess):
            chosen: Format = known
            return chosen
    raise InputError(f"{path}: labels are .csv, .jsonl, or a folder with a folder for each class")


def read_labels(path: Path, kind: Format, photos: Path, classes: ClassList) -> Iterator[Given]:
    """Yield what a file says, in its order.

    Args:
        path: The file or folder.
        kind: Its format.
        photos: The folder of the samples; its own subfolders may be the classes.
        classes: What is known; how several classes are written depends on it.

    Raises:
        InputError: If something cannot be understood; says the line.
    """
    if kind == "folder":
        yield from _read_folder(path, photos, classes)
        return
    read: Callable[[Path, ClassList], Iterator[Given]] = _read_csv if kind == "csv" else _read_jsonl
    try:
        yield from read(path, classes)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error})") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not a text in UTF-8; save it again") from error


def _read_csv(path: Path, classes: ClassList) -> Iterator[Given]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        first = file.readline()
        file.seek(0)
        between = max(_BETWEEN_CELLS, key=first.count)
        rows = csv.DictReader(file, delimiter=between)
        try:
            names = [name.strip().lower() for name in rows.fieldnames or []]
        except csv.Error as error:
            raise InputError(f"{path}, line 1: {error}") from error
        rows.fieldnames = names
        if any(names.count(name) != 1 for name in ("id", "label")):
            raise InputError(f"{path}, line 1: the columns id and label are needed, each once")
        while True:
            where = f"{path}, line {rows.line_num + 1}"
            try:
                row = next(rows, None)
            except csv.Error as error:
                raise InputError(f"{where}: {error}") from error
            if row is None:
                return
            sample, label = row["id"], row["label"]
            if None in row or None in row.values():
                short = "short"
                if None not in row.values():
                    short = f"long; put names with {between!r} in them in quotes"
                raise InputError(f"{where}: the row is too {short}")
            label = label.strip()
            if not label:
                none = f", or write {SEPARATOR} for none of them" if classes.multi_label else ""
                raise InputError(f"{where}: no label; leave the row out{none}")
            several = [name for name in label.split(SEPARATOR) if name]
            yield where, sample, several if classes.multi_label else [label]


def _read_jsonl(path: Path, _classes: ClassList) -> Iterator[Given]:
    with path.open(encoding="utf-8-sig") as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            where = f"{path}, line {number}"
            try:
                entry = json.loads(line)
                sample = entry["id"]
                labels = [entry["label"]] if "label" in entry else entry["labels"]
            except (ValueError, KeyError, TypeError, RecursionError) as error:
                raise InputError(f'{where}: write {{"id": …, "labels": […]}}') from error
            texts = isinstance(labels, list) and all(isinstance(x, str) for x in [sample, *labels])
            if not texts:
                raise InputError(f"{where}: id and labels must be texts")
            yield where, sample, labels


def _read_folder(path: Path, photos: Path, classes: ClassList) -> Iterator[Given]:
    if not path.is_dir():
        raise InputError(f"{path}: no such folder")
    own = path.resolve() == photos.resolve()
    found: dict[str, tuple[str, list[str]]] = {}
    for name in sorted(entry.name for entry in path.iterdir() if entry.is_dir()):
        if name.startswith(".") or (own and name not in classes.names):
            continue
        for folder, _, files in os.walk(path / name):
            for file in sorted(files):
                if file.startswith(".") or not is_sample_name(file):
                    continue
                whole = Path(folder, file)
                sample = whole.relative_to(path if own else path / name).as_posix()
                if classes.multi_label:
                    found.setdefault(sample, (str(whole), []))[1].append(name)
                else:
                    yield str(whole), sample, [name]
    for sample, (where, labels) in found.items():
        yield where, sample, labels
