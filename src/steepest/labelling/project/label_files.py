"""Labels as they stand in files: a table, JSON lines, or folders named by classes."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal, get_args

from steepest.errors import InputError
from steepest.labelling.project.classes import ClassList
from steepest.labelling.project.listing import is_sample_name
from steepest.labelling.separators import split_names

Format = Literal["csv", "jsonl", "folder"]

Given = tuple[str, str, list[str] | None]
"""Where it stands, a sample's id and the names of its classes; None if nobody has said them yet."""

_BETWEEN_CELLS = (",", ";", "\t")
"""What stands between cells, as spreadsheets of various countries write it."""

_LABEL_COLUMNS = frozenset({"label", "labels"})
_NOT_SKIPPED = frozenset({"", "false", "no", "0"})
"""What spreadsheets write for a box that is not ticked."""

SUFFIXES: dict[str, Format] = {".csv": "csv", ".tsv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl"}
"""How the names of files of labels end."""


def choose_format(path: Path, given: str | None) -> Format:
    """Return the format that is asked for, or that the path suggests.

    Raises:
        InputError: If it is none of ours.
    """
    guess = SUFFIXES.get(path.suffix.lower())
    if path.is_dir() or not path.suffix:
        guess = "folder"
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
        column = _name_columns(path, rows)
        while True:
            where = f"{path}, line {rows.line_num + 1}"
            try:
                row = next(rows, None)
            except csv.Error as error:
                raise InputError(f"{where}: {error}") from error
            if row is None:
                return
            if None in row or None in row.values():
                short = "short"
                if None not in row.values():
                    short = f"long; put names with {between!r} in them in quotes"
                raise InputError(f"{where}: the row is too {short}")
            if not any(cell.strip() for cell in row.values()):
                continue
            label = row[column].strip()
            _check_skip(where, row.get("skip", ""), given=bool(label))
            yield where, row["id"], _names_in(label, classes) if label else None


def _name_columns(path: Path, rows: csv.DictReader[str]) -> str:
    """Name the columns in small letters, and return the name of the one with the labels."""
    try:
        names = [name.strip().lower() for name in rows.fieldnames or []]
    except csv.Error as error:
        raise InputError(f"{path}, line 1: {error}") from error
    rows.fieldnames = names
    found = [name for name in names if name in _LABEL_COLUMNS]
    if names.count("id") != 1 or len(found) != 1:
        raise InputError(
            f"{path}, line 1: the columns id and label (or labels) are needed, each once"
        )
    return found[0]


def _names_in(text: str, classes: ClassList) -> list[str]:
    return split_names(text, classes) if classes.multi_label else [text]


def _check_skip(where: str, skip: object, *, given: bool) -> None:
    """Refuse a label for an image that is said to be skipped."""
    told = skip if isinstance(skip, bool) else str(skip or "").strip().lower() not in _NOT_SKIPPED
    if told and given:
        raise InputError(f"{where}: labelled and skipped; decide on one")


def _read_jsonl(path: Path, classes: ClassList) -> Iterator[Given]:
    with path.open(encoding="utf-8-sig") as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            where = f"{path}, line {number}"
            try:
                entry = json.loads(line)
                sample = entry["id"]
                labels = _labels_of(entry)
            except (ValueError, KeyError, TypeError, RecursionError) as error:
                raise InputError(f'{where}: write {{"id": …, "labels": […]}}') from error
            if all(entry.get(key) is not None for key in _LABEL_COLUMNS):
                raise InputError(f"{where}: label and labels; leave one of them out")
            if isinstance(labels, str):
                labels = _names_in(labels.strip(), classes) if labels.strip() else None
            given = [] if labels is None else labels
            texts = isinstance(given, list) and all(isinstance(x, str) for x in [sample, *given])
            if not texts:
                raise InputError(f"{where}: id and labels must be texts")
            _check_skip(where, entry.get("skip"), given=labels is not None)
            yield where, sample, labels


def _labels_of(entry: dict[str, Any]) -> Any:  # noqa: ANN401 - whatever is there
    """Return what stands under label or labels; None where nobody has said anything yet."""
    if not entry.keys() & (_LABEL_COLUMNS | {"skip"}):
        raise KeyError("labels")
    return entry.get("labels") if entry.get("label") is None else entry["label"]


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
