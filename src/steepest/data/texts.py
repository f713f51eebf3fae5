"""Texts as rows: tables, JSON lines, lists and data sets of Hugging Face's library."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.utils.data import Dataset

from steepest.core.files import expand_home
from steepest.core.seeds import SampleId
from steepest.core.wording import counted, suggest
from steepest.data.arrays import from_arrays
from steepest.data.base import DATASETS, ImageSet
from steepest.errors import DataError, InputError

SUFFIXES = (".csv", ".tsv", ".jsonl", ".ndjson", ".json")
"""The ends of names of files that texts are read from."""

TEXT_COLUMNS = (
    "text", "sentence", "content", "review", "comment", "message", "body", "question", "tweet",
    "description", "title", "utterance", "document",
)  # fmt: skip
"""Names under which the text of a row is looked for, the first of them that is there."""

ID_COLUMNS = ("id", "ids", "idx", "uid", "guid", "uuid", "_id", "sample_id", "text_id", "doc_id")
"""Names under which rows have ids of their own."""

_SEPARATORS = (",", ";", "\t")
_LONGEST_CELL = 10_000_000
_MOST_BYTES = 8192


@dataclass(frozen=True, eq=False)
class TextRows:
    """Texts with their ids.

    Attributes:
        ids: Distinct [N].
        texts: [N].
        labels: The class of each row that has one, by id; empty if no column was named for it.
        skipped: (id, reason) of rows without a text.
        column: The column that the texts are of.
    """

    ids: tuple[SampleId, ...]
    texts: tuple[str, ...]
    labels: Mapping[SampleId, str] = field(default_factory=dict)
    skipped: tuple[tuple[SampleId, str], ...] = ()
    column: str = "text"

    def __len__(self) -> int:
        return len(self.ids)


def read_texts(
    source: Any,  # noqa: ANN401 - whatever users have
    text_column: str | None = None,
    *,
    label_column: str | None = None,
    ids: Sequence[SampleId] | None = None,
) -> TextRows:
    """Take texts as users have them.

    Args:
        source: The path of a table (.csv, .tsv) or of JSON lines, a list of texts or of dicts, or a
            data set of Hugging Face's library.
        text_column: The column of the texts; by default one named ``text``, ``sentence`` or the
            like, or the only one that holds texts.
        label_column: The column of the classes, where some rows are labelled.
        ids: The rows' names [N]; by default the column ``id`` or ``idx`` where its values are
            distinct, or else the number of the row, from 0.

    Raises:
        InputError: If there is no such column, or it is not clear which one is meant.
        DataError: If a file cannot be read, or has no text.
    """
    where = str(source) if isinstance(source, (str, Path)) else "the data set"
    columns = _columns_of(source)
    if not columns or not len(next(iter(columns.values()))):
        raise DataError(f"{where}: no rows in it")
    texts_of = _choose(columns, text_column, where)
    count = len(columns[texts_of])
    names: Sequence[SampleId] = _own_ids(columns, count) if ids is None else list(ids)
    if len(names) != count:
        raise InputError(f"{len(names)} ids for {counted(count, 'row')}: one id each")
    if len(set(names)) != count:
        raise InputError(f"{where}: the ids of rows must be distinct")
    kept, skipped = [], []
    for row, text in enumerate(columns[texts_of]):
        if isinstance(text, str) and text.strip():
            kept.append(row)
        else:
            skipped.append((names[row], "no text"))
    if not kept:
        raise DataError(f"{where}: no row has a text in {texts_of!r}")
    labels = {}
    if label_column is not None:
        _need(columns, label_column, where)
        says = _namer(source, label_column)
        given = columns[label_column]
        labels = {names[row]: said for row in kept if (said := says(given[row]))}
    return TextRows(
        tuple(names[row] for row in kept),
        tuple(columns[texts_of][row] for row in kept),
        labels,
        tuple(skipped),
        texts_of,
    )


def holds_texts(source: Any) -> bool:  # noqa: ANN401
    """Say whether a pool is one of texts: a file of rows, a list of them, or such a data set."""
    if isinstance(source, (str, Path)):
        return Path(source).suffix.lower() in SUFFIXES
    if is_table(source):
        kinds = getattr(source, "features", {})
        return any(getattr(kind, "dtype", None) in _TEXT_TYPES for kind in kinds.values())
    if not isinstance(source, (list, tuple)) or not source:
        return False
    first = source[0]
    return isinstance(first, str) or (
        isinstance(first, Mapping) and any(isinstance(value, str) for value in first.values())
    )


_TEXT_TYPES = ("string", "large_string")


def is_table(source: object) -> bool:
    """Say whether rows have named columns, as those of Hugging Face's library."""
    return isinstance(getattr(source, "column_names", None), list) and hasattr(source, "features")


@DATASETS.register("texts")
def texts(
    root: Path | None = None,
    *,
    path: str,
    text_column: str = "",
    label_column: str = "label",
    test_path: str = "",
    test_share: float = 0.2,
    seed: int = 0,
) -> ImageSet:
    """Load labelled texts out of a table or JSON lines, as rows of UTF-8 bytes [N, 1, 1, L].

    With ``data.backbone`` their features take their place. Rows without a label are left out.

    Args:
        root: The folder of data sets.
        path: The file; if it is not there, it is looked for under ``root``.
        text_column: The column of the texts; by default ``text``, ``sentence`` or the like.
        label_column: The column of the classes.
        test_path: Another such file to test on.
        test_share: The share of samples to test on, where there is no other file.
        seed: Decides which those are.

    Raises:
        DataError: If a file is missing or damaged, or no row has a text and a label.
        InputError: If there is no such column.
    """
    files = [_located(root, name) for name in (path, test_path) if name]
    parts = [read_texts(file, text_column or None, label_column=label_column) for file in files]
    arrays: list[npt.NDArray[Any] | None] = []
    for file, rows in zip(files, parts, strict=True):
        known = [row for row, name in enumerate(rows.ids) if name in rows.labels]
        if not known:
            raise DataError(f"{file}: no row has a class in {label_column!r}")
        arrays += [
            _encoded([rows.texts[row] for row in known]),
            np.array([rows.labels[rows.ids[row]] for row in known]),
        ]
    if len(files) == 2:
        widest = max(array.shape[-1] for array in (arrays[0], arrays[2]) if array is not None)
        arrays[0], arrays[2] = (_widened(arrays[at], widest) for at in (0, 2))
    else:
        arrays += [None, None]
    images, labels, test_images, test_labels = arrays
    if images is None or labels is None:
        raise DataError(f"{path}: no texts in it")
    return from_arrays(
        images,
        labels,
        test_images,
        test_labels,
        name="texts",
        layout="channels-first",
        test_share=test_share if test_images is None else 0.0,
        seed=seed,
    )


def decode_texts(rows: Tensor) -> list[str]:
    """Return texts out of rows of bytes [N, 1, 1, L], as the data set ``texts`` has them."""
    plain = rows.flatten(1).numpy()
    return [bytes(row).rstrip(b"\0").decode("utf-8", "ignore") for row in plain]


def _located(root: Path | None, name: str) -> Path:
    given = expand_home(name)
    for file in [given] if root is None else [given, root / given]:
        if file.is_file():
            return file
    raise DataError(f"{given}: no such file; set the option path to a file of texts")


def _encoded(said: Sequence[str]) -> npt.NDArray[np.uint8]:
    """Return texts as bytes [N, 1, 1, L]; those that no net would read to their end are cut."""
    held = [text.replace("\0", " ").encode("utf-8", "replace")[:_MOST_BYTES] for text in said]
    rows = np.zeros((len(held), 1, 1, max(map(len, held))), dtype=np.uint8)
    for row, data in zip(rows, held, strict=True):
        row[0, 0, : len(data)] = np.frombuffer(data, dtype=np.uint8)
    return rows


def _widened(rows: npt.NDArray[Any] | None, width: int) -> npt.NDArray[Any] | None:
    if rows is None:
        return None
    return np.pad(rows, ((0, 0), (0, 0), (0, 0), (0, width - rows.shape[-1])))


def ids_of_table(source: Any) -> Sequence[SampleId] | None:  # noqa: ANN401
    """Return the ids that the rows of a table have in a column; None if they have none."""
    names = [name for name in source.column_names if name.lower() in ID_COLUMNS]
    columns = {name: list(source[name]) for name in names}
    found = _own_ids(columns, len(source))
    return None if isinstance(found, range) else found


class TokenisedTexts(Dataset[dict[str, Tensor]]):
    """Tokenised texts: a row is a text's tokens, without padding.

    Args:
        texts: Texts [N], or rows that ``read_texts`` gave.
        tokenizer: Turns a text into ``input_ids``, an ``attention_mask`` and whatever else the
            model takes, as a tokenizer of transformers does.
        ids: The texts' names [N]; by default those of the rows, or the index.
        max_length: Longer texts are cut; by default where the tokenizer says.
    """

    def __init__(
        self,
        texts: Sequence[str] | TextRows,
        tokenizer: Callable[..., Mapping[str, Any]],
        ids: Sequence[SampleId] | None = None,
        max_length: int | None = None,
    ) -> None:
        rows = texts if isinstance(texts, TextRows) else read_texts(list(texts), ids=ids)
        if rows.skipped:
            raise InputError(f"text {rows.skipped[0][0]!r} is empty: leave it out")
        self.ids = list(rows.ids)
        self._texts = rows.texts
        self._tokenizer = tokenizer
        self._max_length = max_length

    def __len__(self) -> int:
        return len(self._texts)

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        """Return the tokens of a text; each entry is [L]."""
        options = {} if self._max_length is None else {"max_length": self._max_length}
        made = self._tokenizer(self._texts[index], truncation=True, **options)
        return {name: torch.as_tensor(value) for name, value in made.items()}


def _columns_of(source: Any) -> dict[str, Sequence[Any]]:  # noqa: ANN401
    if isinstance(source, (str, Path)):
        return _read(Path(source))
    if is_table(source):
        return {name: source[name] for name in source.column_names}
    rows = list(source)
    if all(isinstance(row, str) for row in rows):
        return {"text": rows}
    return _by_column(rows, "the data set")


def _by_column(rows: Sequence[Any], where: str) -> dict[str, Sequence[Any]]:
    for number, row in enumerate(rows, start=1):
        if not isinstance(row, Mapping):
            raise DataError(f'{where}, row {number}: is not of the form {{"text": "…"}}')
    names = dict.fromkeys(str(name) for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}


def _read(path: Path) -> dict[str, Sequence[Any]]:
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: is no UTF-8: save the file as UTF-8") from error
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error})") from error
    suffix = path.suffix.lower()
    if suffix in (".csv", ".tsv"):
        return _read_table(path, text)
    if suffix == ".json":
        held = _parsed(path, 1, text)
        if not isinstance(held, list):
            raise DataError(f"{path}: give a list of objects, or one object in each line (.jsonl)")
        return _by_column(held, str(path))
    lines = [(n, line) for n, line in enumerate(text.splitlines(), start=1) if line.strip()]
    return _by_column([_parsed(path, number, line) for number, line in lines], str(path))


def _parsed(path: Path, number: int, text: str) -> Any:  # noqa: ANN401 - as read
    try:
        return json.loads(text)
    except ValueError as error:
        raise DataError(f"{path}, line {number}: is no JSON ({error})") from error


def _read_table(path: Path, text: str) -> dict[str, Sequence[Any]]:
    first = text.split("\n", 1)[0]
    separator = max(_SEPARATORS, key=first.count)
    # Texts are longer than the cells that csv takes by itself.
    limit = csv.field_size_limit(min(_LONGEST_CELL, sys.maxsize))
    try:
        rows = list(_cells(path, csv.reader(io.StringIO(text, newline=""), delimiter=separator)))
    finally:
        csv.field_size_limit(limit)
    if not rows:
        return {}
    header = [cell.strip() for cell in rows[0]]
    if len(set(header)) < len(header):
        raise DataError(f"{path}, line 1: two columns have the same name")
    columns: dict[str, list[str]] = {name: [] for name in header}
    for number, row in enumerate(rows[1:], start=2):
        if len(row) != len(header):
            raise DataError(
                f"{path}, row {number}: has {counted(len(row), 'cell')} where the heading has "
                f"{len(header)}: put texts with {separator!r} in them in quotes"
            )
        for name, cell in zip(header, row, strict=True):
            columns[name].append(cell)
    return dict(columns)


def _cells(path: Path, table: Iterator[list[str]]) -> Iterator[list[str]]:
    try:
        yield from (row for row in table if any(cell.strip() for cell in row))
    except csv.Error as error:
        raise DataError(f"{path}: is malformed ({error})") from error


def _choose(columns: Mapping[str, Sequence[Any]], wanted: str | None, where: str) -> str:
    if wanted is not None:
        _need(columns, wanted, where)
        return wanted
    plain = {name.lower(): name for name in columns}
    for name in TEXT_COLUMNS:
        if name in plain:
            return plain[name]
    wordy = [name for name, column in columns.items() if _is_prose(column)]
    if len(wordy) == 1:
        return wordy[0]
    listed = ", ".join(map(repr, columns))
    raise InputError(
        f"{where}: say which column has the texts, by --text-column or text_column=: {listed}"
    )


def _is_prose(column: Sequence[Any]) -> bool:
    seen = [value for value in column[:50] if value not in (None, "")]
    return (
        bool(seen)
        and all(isinstance(value, str) for value in seen)
        and any(" " in value.strip() for value in seen)
    )


def _need(columns: Mapping[str, Sequence[Any]], name: str, where: str) -> None:
    if name not in columns:
        said = suggest(name, columns) or f"there are {', '.join(map(repr, columns))}"
        raise InputError(f"{where}: there is no column {name!r}: {said}")


def _own_ids(columns: Mapping[str, Sequence[Any]], count: int) -> Sequence[SampleId]:
    plain = {name.lower(): name for name in columns}
    for name in ID_COLUMNS:
        values = list(columns[plain[name]]) if name in plain else []
        kinds = {type(value) for value in values}
        if len(values) == count == len(set(values)) and kinds in ({str}, {int}):
            return values
    return range(count)


def _namer(source: Any, column: str) -> Callable[[Any], str]:  # noqa: ANN401
    """Return the class name in a cell; nothing if it is empty."""
    names = getattr(getattr(source, "features", {}).get(column), "names", None) or ()

    def say(value: Any) -> str:  # noqa: ANN401
        if value is None or value == "" or (isinstance(value, float) and value != value):  # noqa: PLR0124
            return ""
        if isinstance(value, int) and names:
            return str(names[value]) if 0 <= value < len(names) else ""
        return str(value).strip()

    return say
