"""Labels out of the store into files and folders, whole or not at all."""

from __future__ import annotations

import csv
import io
import json
import shutil
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, NamedTuple

from steepest.core.files import scratch_beside, write_atomically
from steepest.errors import DataError, InputError
from steepest.labelling.names import SEMICOLON
from steepest.labelling.project.classes import ClassList
from steepest.labelling.project.copies import SPLIT_CONTENTS
from steepest.labelling.project.importing import choose_format
from steepest.labelling.project.records import Labels
from steepest.labelling.project.settings import Settings
from steepest.labelling.project.source import SampleFolder, Source
from steepest.labelling.project.store import Store

COPIES = "copies.csv"
"""The name of the table of copies beside folders of classes."""


class LabelRow(NamedTuple):
    """A sample with its label.

    Attributes:
        sample: The sample.
        labels: Its classes.
        copy_of: The sample with the same bytes whose label this is; None if it is its own.
    """

    sample: str
    labels: Labels
    copy_of: str | None = None


@dataclass(frozen=True)
class ExportReport:
    """Counts of exported rows.

    Attributes:
        samples: Samples with their labels.
        left_out: Samples that people are split on, and those that a folder cannot show.
        path: Where it is.
        copies: How many of the samples have the label of another with the same bytes.
    """

    samples: int
    left_out: int
    path: Path
    copies: int = 0


def export_labels(
    store: Store, source: Source, settings: Settings, path: Path, kind: str | None, *, replace: bool
) -> ExportReport:
    """Write every sample that has a label.

    Args:
        store: The project's file.
        source: The location of the samples.
        settings: The current settings.
        path: The file or folder to write.
        kind: Its format; None goes by its name.
        replace: Whether a file that is there may be written over.

    Raises:
        InputError: If it is there already, or cannot be written.
    """
    chosen = choose_format(path, kind)
    if path.exists() and (not replace or path.is_dir()):
        remedy = "" if path.is_dir() else ", or say that it may be replaced"
        raise InputError(f"{path} is there already; choose another name{remedy}")
    if chosen == "folder":
        folder = need_folder(source)
        if path.resolve().is_relative_to(folder.path.resolve()):
            raise InputError(f"{path}: the copies would become samples; choose a place outside")
    with store.reading() as connection:
        rows = list_labels(connection, settings)
        split = connection.execute("SELECT count(*) FROM images WHERE disputed = 1").fetchone()[0]
    if chosen == "folder":
        written = _write_folder(path, folder, rows)
    else:
        write_atomically(path, label_text(rows, chosen, _between(path)))
        written = len(rows)
    copies = sum(row.copy_of is not None for row in rows)
    return ExportReport(written, split + len(rows) - written, path, copies)


def need_folder(source: Source) -> SampleFolder:
    """Return a source whose samples are files.

    Raises:
        InputError: If they are rows of a table.
    """
    if not isinstance(source, SampleFolder):
        raise InputError(
            f"{source.path}: rows of a table are no files; export labels as .csv or .jsonl"
        )
    return source


def list_labels(connection: sqlite3.Connection, settings: Settings) -> list[LabelRow]:
    """Return every sample that has a label or is a copy of one, in the order of the ids.

    Copies of samples that have different labels follow neither.
    """
    classes = ClassList.load(connection, multi_label=settings.multi_label)
    found = connection.execute(
        f"""SELECT id, labels, NULL AS original FROM images WHERE labels IS NOT NULL
        UNION ALL SELECT i.id, o.labels, o.id FROM images i JOIN images o ON o.number = i.copy_of
        WHERE i.copy_of IS NOT NULL AND i.labels IS NULL AND o.labels IS NOT NULL
        AND o.content NOT IN ({SPLIT_CONTENTS}) ORDER BY 1"""  # noqa: S608
    )
    return [
        LabelRow(row["id"], classes.decode(row["labels"]) or (), row["original"]) for row in found
    ]


def label_text(rows: Sequence[LabelRow], kind: Literal["csv", "jsonl"], between: str = ",") -> str:
    """Return labels as they stand in a file.

    Args:
        rows: The labels.
        kind: The format.
        between: The separator between cells.
    """
    return _csv_text(rows, between) if kind == "csv" else _jsonl_text(rows)


def answers_text(connection: sqlite3.Connection, settings: Settings) -> str:
    """Return each person's current answer about each sample as a table, disagreements included.

    Args:
        connection: To the project's file.
        settings: The current settings.
    """
    classes = ClassList.load(connection, multi_label=settings.multi_label)
    found = connection.execute(
        """SELECT i.id, a.annotator, a.labels, a.at FROM current c
        JOIN answers a ON a.number = c.answer JOIN images i ON i.number = c.image
        ORDER BY i.id, a.annotator"""
    )
    rows: list[tuple[str, ...]] = [("id", "annotator", "label", "skip", "at")]
    for row in found:
        labels, at = classes.decode(row["labels"]), datetime.fromtimestamp(row["at"], UTC)
        cells = ("", "yes") if labels is None else (_cell(labels), "")
        rows.append((row["id"], row["annotator"], *cells, at.isoformat(timespec="seconds")))
    return _table(rows, ",")


def copies_text(rows: Sequence[LabelRow]) -> str | None:
    """Return the table of copies and their originals; None without copies."""
    copies = [(row.sample, row.copy_of) for row in rows if row.copy_of is not None]
    return _table([("id", "copy_of"), *copies], ",") if copies else None


def _between(path: Path) -> str:
    return "\t" if path.suffix.lower() == ".tsv" else ","


def _csv_text(rows: Sequence[LabelRow], between: str) -> str:
    table = [(row.sample, _cell(row.labels)) for row in rows]
    if not any(row.copy_of for row in rows):
        return _table([("id", "label"), *table], between)
    origins = [row.copy_of or "" for row in rows]
    cells = [(*start, origin) for start, origin in zip(table, origins, strict=True)]
    return _table([("id", "label", "copy_of"), *cells], between)


def _cell(labels: Labels) -> str:
    # An empty cell would read as "not labelled yet".
    return SEMICOLON.join(labels) or SEMICOLON


def _table(rows: Sequence[Sequence[str | None]], between: str) -> str:
    text = io.StringIO()
    # By default, the writer leaves a carriage return unquoted, and that ends a row.
    odd = any("\r" in (cell or "") for row in rows for cell in row)
    table = csv.writer(
        text,
        delimiter=between,
        lineterminator="\n",
        quoting=csv.QUOTE_ALL if odd else csv.QUOTE_MINIMAL,
    )
    table.writerows(rows)
    return text.getvalue()


def _jsonl_text(rows: Sequence[LabelRow]) -> str:
    entries = (
        {"id": row.sample, "labels": list(row.labels)}
        | ({} if row.copy_of is None else {"copy_of": row.copy_of})
        for row in rows
    )
    return "".join(json.dumps(entry, ensure_ascii=False) + "\n" for entry in entries)


def _write_folder(path: Path, source: SampleFolder, rows: Sequence[LabelRow]) -> int:
    """Copy the images into folders of classes, and show the whole only when it is done."""
    written = 0
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        scratch = scratch_beside(path)
        scratch.mkdir()
        try:
            for sample, labels, _ in rows:
                written += _copy(source, sample, labels, scratch)
            told = copies_text(rows)
            if told is not None:
                (scratch / COPIES).write_text(told, encoding="utf-8", newline="")
            scratch.rename(path)
        except BaseException:
            shutil.rmtree(scratch, ignore_errors=True)
            raise
    except OSError as error:
        raise InputError(
            f"{path}: cannot be written ({error.strerror or error}); make room there"
        ) from error
    return written


def _copy(source: SampleFolder, sample: str, labels: Labels, scratch: Path) -> bool:
    try:
        path = source.locate(sample)
    except DataError:
        return False
    for name in labels:
        target = scratch / name / sample
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
    return bool(labels)
