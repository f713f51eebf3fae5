"""Rows of label files, whatever their format, become answers about the pool's samples."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath

from steepest.core.seeds import SampleId
from steepest.errors import InputError, SteepestError
from steepest.labelling.exchange.answers import Answer, Map
from steepest.labelling.exchange.maps import check_map, map_label, read_map
from steepest.labelling.exchange.vocabulary import SEGMENTATION, Vocabulary
from steepest.labelling.names import spellings
from steepest.pool import Pool
from steepest.pool.values import Label, check_text

Reader = Callable[[Path], Iterator["Row"]]
"""Reads the rows of a file."""

_NOT_SKIPPED = frozenset({"false", "no", "0"})
"""What spreadsheets write for a box that is not ticked."""

_NUMBER = re.compile(r"-?[0-9]{1,30}")


@dataclass(frozen=True)
class Row:
    """One line of a label file.

    Attributes:
        where: Its place in the file, such as ``"line 3"``.
        id: The sample, as it is written.
        label: The label as it is written; None or empty text says that there is none yet.
        skip: Why the sample is skipped; empty if it is not.
        annotator: The person who said so; empty if the file does not say.
        at: When, as it is written; empty if the file does not say.
    """

    where: str
    id: object
    label: object
    skip: str = ""
    annotator: str = ""
    at: str = ""

    @property
    def empty(self) -> bool:
        """Whether it says no label."""
        return self.label is None or (isinstance(self.label, str) and not self.label.strip())

    @property
    def answered(self) -> bool:
        """Whether someone has given a label, or said that nobody can."""
        return bool(self.skip) or not self.empty


def skip_reason(told: str) -> str:
    """Return why a sample is skipped; empty if what is written says that it is not."""
    reason = told.strip()
    return "" if reason.lower() in _NOT_SKIPPED else reason


def to_answers(
    rows: Iterable[Row], path: Path, words: Vocabulary, pool: Pool, *, stems: bool = False
) -> list[Answer]:
    """Return what the rows say; those without an answer are passed over.

    Args:
        rows: What was read.
        path: From which file.
        words: The task and its classes.
        pool: The samples.
        stems: Whether ids lack the endings of file names.

    Raises:
        InputError: Naming the row, if a sample or a class is not known.
    """
    answers, find = [], id_finder(pool, stems=stems)
    for row in rows:
        try:
            answer = _answer(row, path, words, find)
        except SteepestError as error:
            raise InputError(f"{path}, {row.where}: {error}") from error
        if answer is not None:
            answers.append(answer)
    return answers


def id_finder(pool: Pool, *, stems: bool = False) -> Callable[[object], SampleId]:
    """Return what finds the pool's id that a file or a server means.

    It raises an ``InputError`` if there is none.

    Args:
        pool: The samples.
        stems: Whether ids lack the endings of file names.
    """
    ids = pool.ids()
    numbered = isinstance(ids[0], int)
    by_stem: dict[str, list[SampleId]] = {}
    for sample in ids if stems else ():
        by_stem.setdefault(str(PurePosixPath(str(sample)).with_suffix("")), []).append(sample)

    def find(value: object) -> SampleId:
        sample = value
        if numbered and isinstance(value, str) and _NUMBER.fullmatch(value.strip()):
            sample = int(value)
        known = spellings(sample) if isinstance(sample, str) else (sample,)
        for name in known:
            if isinstance(name, (int, str)) and not isinstance(name, bool) and name in pool:
                return name
        named = [sample for name in known for sample in by_stem.get(str(name), ())]
        if len(named) > 1:
            raise InputError(f"{value!r} may be {named[0]!r} or {named[1]!r}; rename one of them")
        if named:
            return named[0]
        raise InputError(f"there is no sample {value!r} in the pool")

    return find


def _answer(
    row: Row, path: Path, words: Vocabulary, find: Callable[[object], SampleId]
) -> Answer | None:
    sample = find(row.id)
    if row.skip:
        if not row.empty:
            raise InputError(f"sample {sample!r} is labelled and skipped; decide on one")
        check_text(row.skip, "reason")
        return Answer(sample, None, row.skip, row.annotator, row.where)
    if row.empty:
        return None
    if words.task != SEGMENTATION:
        return Answer(sample, words.from_json(row.label), "", row.annotator, row.where)
    draw = partial(_read_beside, path, row.label, len(words.names))
    label: Label = map_label(draw())
    return Answer(sample, label, "", row.annotator, row.where, draw)


def _read_beside(file: Path, name: object, classes: int) -> Map:
    """Read the map that a label file names by its path relative to itself."""
    if not isinstance(name, str):
        raise InputError(f"{name!r} is no label map; give the path of one")
    folder = file.parent.resolve()
    path = (folder / name.strip()).resolve()
    if not path.is_relative_to(folder):
        raise InputError(f"label map {name!r} is outside the file's folder; put it beside the file")
    return check_map(read_map(path), classes)


def read_text(path: Path) -> str:
    """Read a file of UTF-8 text, with or without the mark that some programs put first.

    Raises:
        InputError: If it cannot be read, or holds nothing.
    """
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise InputError(f"{path}, line {line}: is no UTF-8; save the file as UTF-8") from error
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error})") from error
    if not text.strip():
        raise InputError(f"{path}: is empty; give a file with labels")
    return text
