"""Labels from files and folders into the store, all of them or none."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, NamedTuple, TypeGuard, get_args

from steepest.errors import InputError
from steepest.labelling.formats.csv import read_csv
from steepest.labelling.formats.jsonl import read_jsonl
from steepest.labelling.names import spellings, split_names
from steepest.labelling.project.answers import check_annotator, find_annotator, set_current
from steepest.labelling.project.classes import ClassList
from steepest.labelling.project.consensus import IMPORTED_BY, refresh
from steepest.labelling.project.copies import followed_label, mark_copies
from steepest.labelling.project.history import find_image
from steepest.labelling.project.records import Labels
from steepest.labelling.project.settings import Settings
from steepest.labelling.project.source import Source, is_sample_name
from steepest.labelling.project.store import Store

Format = Literal["csv", "jsonl", "folder"]


class Given(NamedTuple):
    """A file's label for one sample.

    Attributes:
        where: Its position.
        sample: The sample's id.
        labels: The names of its classes; None if no one has said them, or it was skipped.
        skipped: Whether somebody skipped it.
        annotator: The person who said so; empty if the file does not say.
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
    """Return the requested format, or the one that the path suggests.

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
    """Yield a file's rows in order.

    Args:
        path: The file or folder.
        kind: Its format.
        source: The location of the samples; subfolders of a folder may be the classes.
        classes: The known classes; how several classes are written depends on it.

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


GivenBy = Callable[[ClassList], Iterable[Given]]
"""Yields the rows of a file; how several classes are written depends on the known classes."""

Subject = tuple[str, str]
"""A sample's id, and who says something about it; empty if the file does not say who."""

_MOST_PLACES = 5
_MOST_WRONG = 1000
"""After this many mistakes the rest of a file is not read."""
_LONGEST_PATH = 4096
_REMEDY = "say known only to pass over such images"


@dataclass(frozen=True)
class Said:
    """One row of a file of labels.

    Attributes:
        text: The classes, as the store keeps them; None is a skip.
        where: Its place.
        at: When it was said; None if the file does not say.
    """

    text: str | None
    where: str
    at: float | None = None


@dataclass(frozen=True)
class Conflict:
    """A label that differs from the existing one, which stays.

    Attributes:
        sample: The sample.
        present: What it is labelled; None if people are split evenly.
        given: The file's contents.
        line: Where it says so.
    """

    sample: str
    present: Labels | None
    given: Labels
    line: str


@dataclass(frozen=True)
class ImportReport:
    """The result of importing a file of labels.

    Attributes:
        added: Labels that are new.
        unchanged: Labels that were there already.
        conflicts: Labels that differ from the stored ones.
        passed_over: Labels of images that are not in the project.
        unanswered: Rows without a label yet.
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

    What a file says in a person's name, as the table of who said what does, becomes that person's
    answer, beside those of others. So one project takes in all that was said in another.

    Args:
        store: The project's file.
        settings: The current settings.
        given: Yields the rows of a file, given the known classes.
        now: The present time.
        known_only: Whether to pass over samples that are not known.

    Raises:
        InputError: If the file cannot be read, or a sample or class is not known; says the line.
    """
    # People keep answering while a large file is read. Images and classes are never removed, so
    # that what was found then is there when it is applied.
    with store.reading() as connection:
        classes = ClassList.load(connection, multi_label=settings.multi_label)
        said, unanswered = _part(given(classes))
        wanted, passed_over = _check(connection, said, classes, known_only=known_only)
    with store.writing() as connection:
        report = _apply(connection, wanted, classes, settings, now)
    return replace(report, passed_over=passed_over, unanswered=unanswered)


def _part(given: Iterable[Given]) -> tuple[list[Given], int]:
    """Return what is said, and how many rows of a sheet still wait for somebody to fill them in."""
    rows = list(given)
    said = [row for row in rows if row.labels is not None or (row.skipped and row.annotator)]
    return said, len(rows) - len(said)


def _check(
    connection: sqlite3.Connection,
    given: Iterable[Given],
    classes: ClassList,
    *,
    known_only: bool,
) -> tuple[dict[Subject, Said], int]:
    """Return what is said about each sample, and how many samples are strange."""
    wanted: dict[Subject, Said] = {}
    wrong: list[tuple[str, str]] = []
    strange: set[str] = set()
    people: dict[str, str] = {}
    for row in given:
        if len(wrong) >= _MOST_WRONG:
            break
        try:
            sample = _find_id(connection, row.sample)  # as the folder spells it
        except InputError as error:
            strange.add(row.sample)
            if not known_only:
                # Of the first one alone it is said what may be meant.
                near = None if wrong else _find_within(connection, row.sample)
                remedy = f"did you mean {near!r}, its path within the folder?" if near else _REMEDY
                wrong.append((row.where, f"{error}; {remedy}"))
            continue
        try:
            text = None if row.labels is None else classes.encode(row.labels)
            if row.annotator not in people:
                people[row.annotator] = _person(connection, row.annotator)
        except InputError as error:
            wrong.append((row.where, str(error)))
            continue
        said = Said(text, row.where, _read_time(row.at))
        known = wanted.setdefault((sample, people[row.annotator]), said)
        if known.text != text:
            wrong.append((row.where, f"{sample!r} has another label in {known.where}"))
    if wrong:
        raise InputError(_explain(wrong))
    return wanted, len(strange)


def _person(connection: sqlite3.Connection, name: str) -> str:
    """Return who is meant, as this project spells the name; empty for labels of files.

    Raises:
        InputError: If it cannot be a person's name.
    """
    if name in ("", IMPORTED_BY):
        return ""
    check_annotator(name)
    return find_annotator(connection, name)


def _read_time(text: str) -> float | None:
    with suppress(ValueError, OverflowError):
        found = datetime.fromisoformat(text)
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
    return None


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
    """Return the sample that a foreign path ends with; None if there is none."""
    name = sample.replace("\\", "/")[-_LONGEST_PATH:]
    while name:
        try:
            return _find_id(connection, name)
        except InputError:
            name = name.partition("/")[2]
    return None


def _explain(wrong: Sequence[tuple[str, str]]) -> str:
    """Report the first error and the places of the others, so that a file is corrected once."""
    (where, reason), others = wrong[0], wrong[1:]
    if others:
        places = [place.rpartition(", ")[2] for place, _ in others[:_MOST_PLACES]]
        more = ", …" if len(others) > len(places) else ""
        least = "at least " if len(wrong) >= _MOST_WRONG else ""
        where = f"{where}, and {least}{len(others)} more ({', '.join(places)}{more})"
    return f"{where}: {reason}"


def _apply(
    connection: sqlite3.Connection,
    wanted: dict[Subject, Said],
    classes: ClassList,
    settings: Settings,
    now: float,
) -> ImportReport:
    added = unchanged = outdated = 0
    conflicts = []
    for (sample, who), said in wanted.items():
        row = find_image(connection, sample)
        known, labels = _find_known(connection, settings, row, who)
        if known and labels == said.text:
            unchanged += 1
        elif known:
            present, given = classes.decode(labels), classes.decode(said.text)
            conflicts.append(Conflict(sample, present, given or (), said.where))
        elif _was_given_up(connection, row, who, said.text):
            outdated += 1
        else:
            at = now if said.at is None else min(said.at, now)
            _add(connection, row["number"], who, said.text, settings, at)
            added += 1
    if added:
        mark_copies(connection, settings)
    return ImportReport(added, unchanged, tuple(conflicts), outdated=outdated)


def _find_known(
    connection: sqlite3.Connection, settings: Settings, image: sqlite3.Row, who: str
) -> tuple[bool, str | None]:
    """Return whether something is said already, by this person or, of a file, by anybody; what."""
    if not who:
        # What a copy has from another is there already: as its own, it would not follow any more.
        own = image["votes"] > 0
        labels = image["labels"] if own else followed_label(connection, settings, image)
        return own or labels is not None, labels
    found = connection.execute(
        """SELECT a.labels FROM current c JOIN answers a ON a.number = c.answer
        WHERE c.image = ? AND c.annotator = ?""",
        (image["number"], who),
    ).fetchone()
    return found is not None, found["labels"] if found else None


def _was_given_up(
    connection: sqlite3.Connection, image: sqlite3.Row, who: str, text: str | None
) -> bool:
    """Return whether an earlier file of that name had the same answer."""
    said = connection.execute(
        "SELECT 1 FROM answers WHERE image = ? AND number <= ? AND annotator = ? AND labels IS ?",
        (image["number"], image["asked_again"], who or IMPORTED_BY, text),
    )
    return said.fetchone() is not None


def _add(
    connection: sqlite3.Connection,
    image: int,
    who: str,
    text: str | None,
    settings: Settings,
    at: float,
) -> None:
    annotator, kind = who or IMPORTED_BY, "skip" if text is None else "label"
    number = connection.execute(
        "INSERT INTO answers (at, annotator, image, kind, labels) VALUES (?, ?, ?, ?, ?)",
        (at, annotator, image, kind, text),
    ).lastrowid
    set_current(connection, image, annotator, number)
    connection.execute(
        "DELETE FROM assignments WHERE image = ? AND annotator = ?", (image, annotator)
    )
    # Only skips were about the earlier file.
    connection.execute(
        "UPDATE images SET changed = 0, content = NULL WHERE number = ? AND changed > 0", (image,)
    )
    refresh(connection, image, settings)
