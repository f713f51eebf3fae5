"""Labels out of the store into files and folders, whole or not at all."""

from __future__ import annotations

import csv
import io
import json
import shutil
import sqlite3
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from steepest.errors import DataError, InputError
from steepest.files import SCRATCH_PREFIX, write_atomically
from steepest.labelling.project.classes import SEPARATOR, ClassList
from steepest.labelling.project.label_files import choose_format
from steepest.labelling.project.pictures import locate
from steepest.labelling.project.records import Labels
from steepest.labelling.project.settings import Settings
from steepest.labelling.project.store import Store

Row = tuple[str, Labels]


@dataclass(frozen=True)
class ExportReport:
    """What was written.

    Attributes:
        samples: Samples with their labels.
        left_out: Samples that people are split on, and those that a folder cannot show.
        path: Where it is.
    """

    samples: int
    left_out: int
    path: Path


def export_labels(
    store: Store, photos: Path, settings: Settings, path: Path, kind: str | None, *, replace: bool
) -> ExportReport:
    """Write every sample that has a label.

    Args:
        store: The project's file.
        photos: The folder of the samples.
        settings: What holds now.
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
    if chosen == "folder" and path.resolve().is_relative_to(photos.resolve()):
        raise InputError(f"{path}: the copies would become samples; choose a place outside")
    with store.reading() as connection:
        rows = list_labels(connection, settings)
        split = connection.execute("SELECT count(*) FROM images WHERE disputed = 1").fetchone()[0]
    if chosen == "folder":
        written = _write_folder(path, photos, rows)
    else:
        write_atomically(path, label_text(rows, chosen))
        written = len(rows)
    return ExportReport(written, split + len(rows) - written, path)


def list_labels(connection: sqlite3.Connection, settings: Settings) -> list[Row]:
    """Return every sample that has a label, with its classes, in the order of the ids."""
    classes = ClassList.load(connection, multi_label=settings.multi_label)
    found = connection.execute("SELECT id, labels FROM images WHERE labels IS NOT NULL ORDER BY id")
    return [(row["id"], classes.decode(row["labels"]) or ()) for row in found]


def label_text(rows: Sequence[Row], kind: Literal["csv", "jsonl"]) -> str:
    """Return labels as they stand in a file."""
    return _csv_text(rows) if kind == "csv" else _jsonl_text(rows)


def _csv_text(rows: Sequence[Row]) -> str:
    text = io.StringIO()
    # By itself, the writer leaves a carriage return without quotes, and that ends a row.
    odd = any("\r" in sample for sample, _ in rows)
    table = csv.writer(
        text, lineterminator="\n", quoting=csv.QUOTE_ALL if odd else csv.QUOTE_MINIMAL
    )
    table.writerow(["id", "label"])
    # An empty cell would read as "not labelled yet".
    table.writerows([sample, SEPARATOR.join(labels) or SEPARATOR] for sample, labels in rows)
    return text.getvalue()


def _jsonl_text(rows: Sequence[Row]) -> str:
    lines = (json.dumps({"id": i, "labels": list(n)}, ensure_ascii=False) for i, n in rows)
    return "".join(line + "\n" for line in lines)


def _write_folder(path: Path, photos: Path, rows: Sequence[Row]) -> int:
    """Copy the images into folders of classes, and show the whole only when it is done."""
    written = 0
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(dir=path.parent, prefix=SCRATCH_PREFIX))
        try:
            for sample, labels in rows:
                written += _copy(photos, sample, labels, scratch)
            scratch.chmod(0o755)
            scratch.rename(path)
        except BaseException:
            shutil.rmtree(scratch, ignore_errors=True)
            raise
    except OSError as error:
        raise InputError(
            f"{path}: cannot be written ({error.strerror or error}); make room there"
        ) from error
    return written


def _copy(photos: Path, sample: str, labels: Labels, scratch: Path) -> bool:
    try:
        source = locate(photos, sample)
    except DataError:
        return False
    for name in labels:
        target = scratch / name / sample
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
    return bool(labels)
