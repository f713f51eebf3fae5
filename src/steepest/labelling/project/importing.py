"""Labels from files and folders into the store, all of them or none."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from steepest.errors import InputError
from steepest.labelling.project.classes import ClassList
from steepest.labelling.project.following import followed_label, mark_copies
from steepest.labelling.project.history import find_image
from steepest.labelling.project.label_files import Given
from steepest.labelling.project.records import Labels
from steepest.labelling.project.resolve import IMPORTED_BY, refresh
from steepest.labelling.project.settings import Settings
from steepest.labelling.project.store import Store
from steepest.labelling.spellings import spellings

GivenBy = Callable[[ClassList], Iterable[Given]]
"""Yields what a file says; how several classes are written depends on those that are known."""

Said = tuple[str, str, list[str]]
"""Where it stands, a sample's id and the names of its classes."""

_MOST_PLACES = 5
_MOST_WRONG = 1000
"""After so many mistakes the rest of a file is not looked at: to say each takes a while."""
_LONGEST_PATH = 4096
_REMEDY = "say known only to pass over such images"


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
        passed_over: Labels of images that are not in the project.
        unanswered: Rows in which nobody has said a label yet.
        outdated: Labels that were taken in before and were given up, the file being another now.
    """

    added: int
    unchanged: int
    conflicts: tuple[Conflict, ...]
    passed_over: int = 0
    unanswered: int = 0
    outdated: int = 0


def import_labels(
    store: Store, settings: Settings, given: GivenBy, now: float, *, known_only: bool = False
) -> ImportReport:
    """Take labels for samples that have none yet; doing so twice changes nothing.

    Args:
        store: The project's file.
        settings: What holds now.
        given: Yields what a file says, told the classes that are known.
        now: What time it is.
        known_only: Whether to pass over samples that are not known.

    Raises:
        InputError: If the file cannot be read, or a sample or class is not known; says the line.
    """
    # People go on answering while a large file is read. Images and classes are never removed, so
    # that what was found then is there when it is applied.
    with store.reading() as connection:
        classes = ClassList.load(connection, multi_label=settings.multi_label)
        said, unanswered = _part(given(classes))
        wanted, passed_over = _check(connection, said, classes, known_only=known_only)
    with store.writing() as connection:
        report = _apply(connection, wanted, classes, settings, now)
    return replace(report, passed_over=passed_over, unanswered=unanswered)


def _part(given: Iterable[Given]) -> tuple[list[Said], int]:
    """Return what is said, and how many rows of a sheet still wait for somebody to fill them in."""
    rows = list(given)
    said = [(where, sample, labels) for where, sample, labels in rows if labels is not None]
    return said, len(rows) - len(said)


def _check(
    connection: sqlite3.Connection,
    given: Iterable[Said],
    classes: ClassList,
    *,
    known_only: bool,
) -> tuple[dict[str, tuple[str, str]], int]:
    """Return each sample's label as the store keeps it with its place, and how many are strange."""
    wanted: dict[str, tuple[str, str]] = {}
    wrong: list[tuple[str, str]] = []
    strange: set[str] = set()
    for where, sample, labels in given:
        if len(wrong) >= _MOST_WRONG:
            break
        try:
            sample = _find_id(connection, sample)  # noqa: PLW2901 - as the folder spells it
        except InputError as error:
            strange.add(sample)
            if not known_only:
                # Of the first one alone it is said what may be meant.
                near = None if wrong else _find_within(connection, sample)
                remedy = f"did you mean {near!r}, its path within the folder?" if near else _REMEDY
                wrong.append((where, f"{error}; {remedy}"))
            continue
        try:
            text = classes.encode(labels)
        except InputError as error:
            wrong.append((where, str(error)))
            continue
        known, elsewhere = wanted.setdefault(sample, (text, where))
        if known != text:
            wrong.append((where, f"{sample!r} has another label in {elsewhere}"))
    if wrong:
        raise InputError(_explain(wrong))
    return wanted, len(strange)


def _find_id(connection: sqlite3.Connection, sample: str) -> str:
    """Return the sample that a file means, as the folder spells it.

    Raises:
        InputError: If there is none.
    """
    for name in spellings(sample):
        with suppress(InputError):
            return str(find_image(connection, name)["id"])
    return str(find_image(connection, sample)["id"])


def _find_within(connection: sqlite3.Connection, sample: str) -> str | None:
    """Return the sample that a path from elsewhere ends with; None if there is none."""
    name = sample.replace("\\", "/")[-_LONGEST_PATH:]
    while name:
        try:
            return _find_id(connection, name)
        except InputError:
            name = name.partition("/")[2]
    return None


def _explain(wrong: Sequence[tuple[str, str]]) -> str:
    """Say what is wrong first, and where else: who corrects a file corrects it once."""
    (where, reason), others = wrong[0], wrong[1:]
    if others:
        places = [place.rpartition(", ")[2] for place, _ in others[:_MOST_PLACES]]
        more = ", …" if len(others) > len(places) else ""
        least = "at least " if len(wrong) >= _MOST_WRONG else ""
        where = f"{where}, and {least}{len(others)} more ({', '.join(places)}{more})"
    return f"{where}: {reason}"


def _apply(
    connection: sqlite3.Connection,
    wanted: dict[str, tuple[str, str]],
    classes: ClassList,
    settings: Settings,
    now: float,
) -> ImportReport:
    added = unchanged = outdated = 0
    conflicts = []
    for sample, (text, where) in wanted.items():
        row = find_image(connection, sample)
        # What a copy has from another is there already: as its own, it would not follow any more.
        labels = row["labels"] if row["votes"] else followed_label(connection, settings, row)
        if labels == text:
            unchanged += 1
        elif row["votes"] or labels is not None:
            present, given = classes.decode(labels), classes.decode(text)
            conflicts.append(Conflict(sample, present, given or (), where))
        elif _was_given_up(connection, row, text):
            outdated += 1
        else:
            _add(connection, row["number"], text, settings, now)
            added += 1
    if added:
        mark_copies(connection, settings)
    return ImportReport(added, unchanged, tuple(conflicts), outdated=outdated)


def _was_given_up(connection: sqlite3.Connection, image: sqlite3.Row, text: str) -> bool:
    """Decide whether a file said the same about an earlier file of the same name."""
    said = connection.execute(
        "SELECT 1 FROM answers WHERE image = ? AND number <= ? AND annotator = ? AND labels = ?",
        (image["number"], image["asked_again"], IMPORTED_BY, text),
    )
    return said.fetchone() is not None


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
    # Only skips were about the earlier file.
    connection.execute(
        "UPDATE images SET changed = 0, content = NULL WHERE number = ? AND changed > 0", (image,)
    )
    refresh(connection, image, settings)
