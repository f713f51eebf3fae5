"""Labels from files and folders into the store, all of them or none."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from steepest.errors import InputError
from steepest.labelling.project.classes import ClassList
from steepest.labelling.project.history import find_image
from steepest.labelling.project.label_files import Given, choose_format, read_labels
from steepest.labelling.project.records import Labels
from steepest.labelling.project.resolve import IMPORTED_BY, refresh
from steepest.labelling.project.settings import Settings
from steepest.labelling.project.store import Store

_MOST_PLACES = 5


@dataclass(frozen=True)
class Conflict:
    """A label that differs from what is there; what is there stays.

    Attributes:
        sample: The sample.
        present: What it is labelled; None if people are split evenly.
        given: What the file says.
        line: Where it says so.
    """

    sample: str
    present: Labels | None
    given: Labels
    line: str


@dataclass(frozen=True)
class ImportReport:
    """What became of a file of labels.

    Attributes:
        added: Labels that are new.
        unchanged: Labels that were there already.
        conflicts: Labels that differ from what is there.
    """

    added: int
    unchanged: int
    conflicts: tuple[Conflict, ...]


def import_labels(
    store: Store, photos: Path, settings: Settings, path: Path, kind: str | None, now: float
) -> ImportReport:
    """Take labels for samples that have none yet; doing so twice changes nothing.

    Args:
        store: The project's file.
        photos: The folder of the samples.
        settings: What holds now.
        path: The file or folder.
        kind: Its format; None goes by its name.
        now: What time it is.

    Raises:
        InputError: If the file cannot be read, or a sample or class is not known; says the line.
    """
    chosen = choose_format(path, kind)
    # People go on answering while a large file is read. Images and classes are never removed, so
    # that what was found then is there when it is applied.
    with store.reading() as connection:
        classes = ClassList.load(connection, multi_label=settings.multi_label)
        wanted = _check(connection, read_labels(path, chosen, photos, classes), classes)
    with store.writing() as connection:
        return _apply(connection, wanted, classes, settings, now)


def _check(
    connection: sqlite3.Connection, given: Iterator[Given], classes: ClassList
) -> dict[str, tuple[str, str]]:
    """Return each sample's label as the store keeps it, and where it stands."""
    wanted: dict[str, tuple[str, str]] = {}
    wrong: list[tuple[str, str]] = []
    for where, sample, labels in given:
        try:
            find_image(connection, sample)
            text = classes.encode(labels)
        except InputError as error:
            wrong.append((where, str(error)))
            continue
        known, elsewhere = wanted.setdefault(sample, (text, where))
        if known != text:
            wrong.append((where, f"{sample!r} has another label in {elsewhere}"))
    if wrong:
        raise InputError(_explain(wrong))
    return wanted


def _explain(wrong: Sequence[tuple[str, str]]) -> str:
    """Say what is wrong first, and where else: who corrects a file corrects it once."""
    (where, reason), others = wrong[0], wrong[1:]
    if others:
        places = [place.rpartition(", ")[2] for place, _ in others[:_MOST_PLACES]]
        more = ", …" if len(others) > len(places) else ""
        where = f"{where}, and {len(others)} more ({', '.join(places)}{more})"
    return f"{where}: {reason}"


def _apply(
    connection: sqlite3.Connection,
    wanted: dict[str, tuple[str, str]],
    classes: ClassList,
    settings: Settings,
    now: float,
) -> ImportReport:
    added = unchanged = 0
    conflicts = []
    for sample, (text, where) in wanted.items():
        row = find_image(connection, sample)
        if row["votes"] == 0:
            _add(connection, row["number"], text, settings, now)
            added += 1
        elif row["labels"] == text:
            unchanged += 1
        else:
            present, given = classes.decode(row["labels"]), classes.decode(text)
            conflicts.append(Conflict(sample, present, given or (), where))
    return ImportReport(added, unchanged, tuple(conflicts))


def _add(
    connection: sqlite3.Connection, image: int, text: str, settings: Settings, now: float
) -> None:
    number = connection.execute(
        "INSERT INTO answers (at, annotator, image, kind, labels) VALUES (?, ?, ?, 'label', ?)",
        (now, IMPORTED_BY, image, text),
    ).lastrowid
    connection.execute(
        "INSERT OR REPLACE INTO current VALUES (?, ?, ?)", (image, IMPORTED_BY, number)
    )
    refresh(connection, image, overlap=settings.overlap, multi_label=settings.multi_label)
