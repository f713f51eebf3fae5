"""Labels as people have them, in tables or JSON, matched with a pool's samples."""

from __future__ import annotations

import csv
import io
import json
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from steepest.core.seeds import SampleId
from steepest.core.wording import counted
from steepest.errors import InputError

ID_COLUMNS = (
    "id", "file", "filename", "file_name", "filepath", "file_path", "path", "image", "image_id",
    "image_path", "image_file", "img", "img_path", "name", "photo", "key", "sample",
)  # fmt: skip
"""Headings under which tables have the sample, the first of them that is there."""

LABEL_COLUMNS = (
    "label", "labels", "class", "class_name", "classname", "category", "target", "y", "tag",
    "species", "annotation", "answer",
)  # fmt: skip
"""Headings under which tables have its class."""

_SEPARATORS = (",", ";", "\t")
_SKIP = "skip"
_NOT_SKIPPED = frozenset({"", "false", "no", "0"})
_SAYS_NOTHING = frozenset({"", "nan"})


@dataclass(frozen=True)
class LabelTable:
    """Labels of some samples of a pool.

    Attributes:
        labels: The class of each labelled sample, as it is written.
        skipped: Samples that somebody decided not to label.
        unknown: Names in the file that no sample of the pool has.
        waiting: How many rows say no class yet.
    """

    labels: dict[SampleId, str]
    skipped: frozenset[SampleId] = frozenset()
    unknown: tuple[str, ...] = ()
    waiting: int = 0

    def and_also(self, other: LabelTable, path: Path) -> LabelTable:
        """Return the labels of both.

        Raises:
            InputError: If they disagree about a sample.
        """
        for sample, label in other.labels.items():
            if self.labels.get(sample, label) != label:
                raise InputError(
                    f"{path}: sample {sample!r} is {label!r} here and {self.labels[sample]!r} in "
                    "an earlier file: decide on one"
                )
        return LabelTable(
            {**self.labels, **other.labels},
            (self.skipped | other.skipped) - self.labels.keys() - other.labels.keys(),
            (*self.unknown, *other.unknown),
            self.waiting + other.waiting,
        )


@dataclass(frozen=True)
class _Row:
    where: str
    name: str
    label: str
    skip: bool = False


def read_labels(path: Path, ids: Sequence[SampleId], root: Path | None = None) -> LabelTable:
    """Read a file of labels.

    A table (.csv, .tsv, .txt) with or without a heading; commas, semicolons or tabs separate its
    cells. JSON lines, or one JSON object or list. Samples go by their id, by a path to the same
    file from elsewhere, or by the end of a path where that is clear.

    Args:
        path: The file.
        ids: Of the pool.
        root: The pool's folder, if it is one.

    Raises:
        InputError: If it cannot be read, names no sample of the pool, or says two classes of one.
    """
    find = _Finder(ids, root)
    labels: dict[SampleId, str] = {}
    places: dict[SampleId, str] = {}
    skipped: set[SampleId] = set()
    unknown: list[str] = []
    waiting = 0
    for row in _rows(path, find):
        sample = find(row.name)
        if sample is None:
            unknown.append(row.name)
        elif row.skip:
            skipped.add(sample)
        elif not row.label:
            waiting += 1
        elif labels.get(sample, row.label) != row.label:
            raise InputError(
                f"{path}, {row.where}: sample {sample!r} is {row.label!r} here and "
                f"{labels[sample]!r} in {places[sample]}: decide on one"
            )
        else:
            labels[sample], places[sample] = row.label, row.where
    if unknown and not labels and not skipped and not waiting:
        raise InputError(
            f"{path}: none of its {counted(len(unknown), 'row')} names a sample of the pool; the "
            f"first is {unknown[0]!r}, and samples go by names such as {ids[0]!r}"
        )
    return LabelTable(labels, frozenset(skipped - labels.keys()), tuple(unknown), waiting)


class _Finder:
    """Finds the sample that a name in a file means.

    Args:
        ids: Of the pool.
        root: The pool's folder, if it is one.
    """

    def __init__(self, ids: Sequence[SampleId], root: Path | None) -> None:
        self._ids = {_plain(str(sample)): sample for sample in ids}
        self._folder = None if root is None else _plain(str(root.resolve()))
        self._tails: dict[str, set[SampleId]] = defaultdict(set)
        self._stems: dict[str, set[SampleId]] = defaultdict(set)
        for name, sample in self._ids.items():
            parts = name.split("/")
            for start in range(1, len(parts)):
                self._tails["/".join(parts[start:])].add(sample)
            stem, dot, _ = name.rpartition(".")
            for start in range(len(parts) if dot else 0):
                self._stems["/".join(stem.split("/")[start:])].add(sample)

    def __call__(self, name: str) -> SampleId | None:
        """Return the sample; None if there is none, or several could be meant."""
        wanted = _plain(name)
        if wanted in self._ids:
            return self._ids[wanted]
        if self._folder is not None and wanted.startswith(self._folder + "/"):
            return self._ids.get(wanted[len(self._folder) + 1 :])
        parts = wanted.split("/")
        for start in range(1, len(parts)):
            # A path from above the pool's folder ends in the id.
            if (tail := "/".join(parts[start:])) in self._ids:
                return self._ids[tail]
        for table in (self._tails, self._stems):
            found = table.get(wanted, set())
            if len(found) == 1:
                return next(iter(found))
        return None


def _plain(name: str) -> str:
    """Return a path as systems agree on it: forward slashes, letters with accents as one sign."""
    text = unicodedata.normalize("NFC", name.strip()).replace("\\", "/")
    while text.startswith("./"):
        text = text[2:]
    return text


def _rows(path: Path, find: _Finder) -> Iterator[_Row]:
    text = _read(path)
    suffix = path.suffix.lower()
    if suffix in (".jsonl", ".ndjson"):
        return _of_json_lines(path, text)
    if suffix == ".json":
        return _of_json(path, text)
    if suffix in (".csv", ".tsv", ".txt"):
        return _of_table(path, text, find)
    raise InputError(f"{path}: labels are read from .csv, .tsv, .txt, .json or .jsonl files")


def _read(path: Path) -> str:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error})") from error
    encoding = "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise InputError(f"{path}, line {line}: is no UTF-8: save the file as UTF-8") from error
    if not text.strip():
        raise InputError(f"{path}: is empty: give a file with lines such as a.jpg,cat")
    return text


def _of_table(path: Path, text: str, find: _Finder) -> Iterator[_Row]:
    first = next(line for line in text.splitlines() if line.strip())
    separator = max(_SEPARATORS, key=first.count)
    if not first.count(separator):
        raise InputError(
            f"{path}: {first[:60]!r} has one column: give lines such as a.jpg,cat with a sample "
            "and its class"
        )
    table = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    columns: tuple[int, int, int | None] | None = None
    while True:
        line = table.line_num + 1
        try:
            cells = [cell.strip() for cell in next(table)]
        except StopIteration:
            return
        except csv.Error as error:
            raise InputError(f"{path}, line {line}: is malformed ({error})") from error
        if not any(cells):
            continue
        if columns is None:
            columns, heading = _columns(path, cells, find)
            if heading:
                continue
        name, label, skip = columns
        if len(cells) <= max(name, label):
            raise InputError(
                f"{path}, line {line}: has {counted(len(cells), 'cell')}, and the class is in "
                f"column {label + 1}"
            )
        note = cells[skip].lower() if skip is not None and skip < len(cells) else ""
        yield _Row(f"line {line}", cells[name], _said(cells[label]), note not in _NOT_SKIPPED)


def _columns(
    path: Path, cells: Sequence[str], find: _Finder
) -> tuple[tuple[int, int, int | None], bool]:
    """Return the columns of id, class and skip, and whether the first line is a heading."""
    names = [cell.lower().replace(" ", "_").replace("-", "_") for cell in cells]
    name = next((names.index(word) for word in ID_COLUMNS if word in names), None)
    label = next((names.index(word) for word in LABEL_COLUMNS if word in names), None)
    skip = names.index(_SKIP) if _SKIP in names else None
    if name is not None and label is not None:
        return (name, label, skip), True
    if len(cells) == 2:
        if name is not None:
            return (name, 1 - name, None), True
        if label is not None:
            return (1 - label, label, None), True
        # Without a heading, whichever cell names a sample: some write the class first.
        known = [find(cell) is not None for cell in cells]
        order = (1, 0) if known == [False, True] else (0, 1)
        return (*order, None), not any(known) and "." not in cells[0]
    raise InputError(
        f"{path}: its first line ({', '.join(cells)[:60]}) names no column for the sample and one "
        "for the class: call them id and label"
    )


def _of_json_lines(path: Path, text: str) -> Iterator[_Row]:
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip():
            where = f"line {number}"
            yield _of_object(path, where, _parsed(path, where, line))


def _of_json(path: Path, text: str) -> Iterator[_Row]:
    held = _parsed(path, "line 1", text)
    if isinstance(held, dict):
        for name, label in held.items():
            yield _Row(f"entry {name!r}", str(name), _said(label, path, f"entry {name!r}"))
    elif isinstance(held, list):
        for number, entry in enumerate(held, start=1):
            yield _of_object(path, f"entry {number}", entry)
    else:
        raise InputError(f'{path}: give an object such as {{"a.jpg": "cat"}}, or a list of objects')


def _parsed(path: Path, where: str, text: str) -> Any:  # noqa: ANN401 - as read
    try:
        return json.loads(text)
    except ValueError as error:
        raise InputError(f"{path}, {where}: is no JSON ({error})") from error


def _of_object(path: Path, where: str, entry: object) -> _Row:
    if not isinstance(entry, dict):
        raise InputError(f'{path}, {where}: is not of the form {{"id": "a.jpg", "label": "cat"}}')
    known = {str(key).lower(): value for key, value in entry.items()}
    name = next((known[word] for word in ID_COLUMNS if known.get(word) is not None), None)
    if name is None or isinstance(name, (dict, list)):
        raise InputError(f'{path}, {where}: names no sample: {{"id": "a.jpg", "label": "cat"}}')
    label = next((known[word] for word in LABEL_COLUMNS if known.get(word) is not None), None)
    skip = str(known.get(_SKIP) or "").strip().lower() not in _NOT_SKIPPED
    return _Row(where, str(name), _said(label, path, where), skip)


def _said(label: object, path: Path | None = None, where: str = "") -> str:
    """Return a class as text; nothing where none is said.

    Raises:
        InputError: If there are several.
    """
    if isinstance(label, list) and len(label) == 1:
        label = label[0]
    if isinstance(label, (list, dict)):
        raise InputError(f"{path}, {where}: {label!r} is not one class: give one for each sample")
    text = "" if label is None else str(label).strip()
    return "" if text.lower() in _SAYS_NOTHING else text


def say_unknown(unknown: Iterable[str], path: Path | str) -> str:
    """Say which names of a file are those of no sample, or of several."""
    names = list(unknown)
    listed = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    return f"{path}: {counted(len(names), 'row')} left out that name no one sample: {listed}"
