"""Labels as they stand in files: a table, JSON lines, or folders named by classes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple, TypeGuard, get_args

from steepest.errors import InputError
from steepest.labelling.exchange.formats.csv import read_csv
from steepest.labelling.exchange.formats.jsonl import read_jsonl
from steepest.labelling.project.classes import ClassList
from steepest.labelling.project.source import Source, is_sample_name
from steepest.labelling.separators import split_names

Format = Literal["csv", "jsonl", "folder"]


class Given(NamedTuple):
    """A file's label for one sample.

    Attributes:
        where: Where it stands.
        sample: The sample's id.
        labels: The names of its classes; None if nobody has said them, or it was skipped.
        skipped: Whether somebody skipped it.
        annotator: Who said so; empty if the file does not say.
        at: When, as it is written; empty if the file does not say.
    """

    where: str
    sample: str
    labels: list[str] | None
    skipped: bool = False
    annotator: str = ""
    at: str = ""


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


def read_labels(path: Path, kind: Format, source: Source, classes: ClassList) -> Iterator[Given]:
    """Yield what a file says, in its order.

    Args:
        path: The file or folder.
        kind: Its format.
        source: Where the samples are; subfolders of a folder may be the classes.
        classes: What is known; how several classes are written depends on it.

    Raises:
        InputError: If something cannot be understood; says the line.
    """
    if kind == "folder":
        yield from _read_folder(path, source, classes)
        return
    for row in read_csv(path) if kind == "csv" else read_jsonl(path):
        where = f"{path}, {row.where}"
        if row.skip and not row.empty:
            raise InputError(f"{where}: labelled and skipped; decide on one")
        labels = None if row.empty else row.label
        if isinstance(labels, str):
            labels = split_names(labels, classes) if classes.multi_label else [labels.strip()]
        sample = str(row.id) if type(row.id) is int else row.id
        if not isinstance(sample, str) or not (labels is None or _are_texts(labels)):
            raise InputError(f"{where}: id and labels must be texts")
        yield Given(where, sample, labels, bool(row.skip), row.annotator, row.at)


def _are_texts(labels: object) -> TypeGuard[list[str]]:
    return isinstance(labels, list) and all(isinstance(name, str) for name in labels)


def _read_folder(path: Path, source: Source, classes: ClassList) -> Iterator[Given]:
    if not path.is_dir():
        raise InputError(f"{path}: no such folder")
    own = path.resolve() == source.path.resolve()
    found: dict[str, tuple[str, list[str]]] = {}
    for name in sorted(entry.name for entry in path.iterdir() if entry.is_dir()):
        if name.startswith(".") or (own and name not in classes.names):
            continue
        for folder, _, files in os.walk(path / name):
            for file in sorted(files):
                if file.startswith(".") or not is_sample_name(file, source.kind):
                    continue
                whole = Path(folder, file)
                sample = whole.relative_to(path if own else path / name).as_posix()
                if classes.multi_label:
                    found.setdefault(sample, (str(whole), []))[1].append(name)
                else:
                    yield Given(str(whole), sample, [name])
    for sample, (where, labels) in found.items():
        yield Given(where, sample, labels)
