"""Command-line inputs of a strategy other than the model and the pool."""

from __future__ import annotations

import argparse
import csv
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import nn

from steepest.core.seeds import SampleId
from steepest.errors import InputError
from steepest.labelling.exchange.export import SUFFIXES
from steepest.labelling.exchange.vocabulary import CLASSIFICATION, Vocabulary
from steepest.labelling.formats.csv import is_sheet, is_table_of_ids, read_csv, read_ids
from steepest.labelling.formats.jsonl import read_jsonl
from steepest.pool import Pool
from steepest.selecting import Selection
from steepest.strategies.support import Support

_HEADER = ("id", "label")


def add_support_arguments(
    parser: argparse._ActionsContainer, model: argparse._ActionsContainer
) -> None:
    """Add the arguments of labelled samples and further models."""
    parser.add_argument(
        "--labelled",
        type=Path,
        metavar="FILE",
        help="labelled samples to leave out: one id per line, id,label, or a file that --out "
        "wrote; for strategies that learn from labels, labels are numbers or names of --classes",
    )
    model.add_argument(
        "--member",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="weights of another model of a committee, for qbc; may be repeated",
    )
    model.add_argument(
        "--previous", type=Path, metavar="FILE", help="weights of the previous cycle, for tod"
    )


def read_support(
    arguments: argparse.Namespace,
    labels: Mapping[Any, int],
    load: Callable[[Path], nn.Module],
    loop: Pool | None,
) -> Support:
    """Return the given inputs, with the labels of a loop.

    Args:
        arguments: As parsed.
        labels: Of ``--labelled``, by id.
        load: Makes the model with the weights of a file.
        loop: A labelling loop, if there is one.
    """
    targets = dict(labels)
    if loop is not None:
        known = zip(*loop.labelled(), strict=True)
        targets |= {i: label for i, label in known if isinstance(label, int)}
    return Support(
        targets=targets,
        members=tuple(load(path) for path in arguments.member),
        previous=None if arguments.previous is None else load(arguments.previous),
    )


def read_labelled(
    path: Path | None,
    ids: Sequence[SampleId],
    names: tuple[str, ...] = (),
    *,
    learnt_from: bool = True,
) -> tuple[list[int | str] | None, dict[int | str, int]]:
    """Read which samples are labelled, and their classes where the file has them.

    Args:
        path: One id per line, or ``id,label``; a first line that says so is passed over. Or a
            table with these and other columns, as ``steepest ingest`` takes it, or picks that
            were saved.
        ids: The ids of the pool's samples; a range if they go by their index.
        names: The classes' names in the model's order; none if they are not known.
        learnt_from: Whether somebody wants the classes; if not, names may be unknown.

    Returns:
        The ids, or None without a file, and the classes by id.

    Raises:
        InputError: Naming the line that cannot be read.
    """
    if path is None:
        return None, {}
    # A range tests membership directly, without a table of a million numbers.
    known = None if isinstance(ids, range) else {str(sample): sample for sample in ids}
    found: list[int | str] = []
    labels: dict[int | str, int] = {}
    for where, line, name, label in _rows(path, known or ()):
        try:
            sample = _sample(name, line, known)
            if label is not None and (learnt_from or names):
                labels[sample] = _class_number(label, names)
        except InputError as error:
            raise InputError(f"--labelled {path}, {where}: {error}") from error
        found.append(sample)
    return found, labels


def _rows(path: Path, known: Collection[str]) -> Iterator[tuple[str, str, str, str | None]]:
    """Yield a row's position, its whole text, its id and its class, if it has one."""
    if path.suffix == ".json":
        for rank, name in enumerate(Selection.load(path).ids, start=1):
            yield f"rank {rank}", str(name), str(name), None
        return
    lines = _lines(path)
    if lines[0].strip() not in known and is_table_of_ids(path):
        for row in read_ids(path):
            yield row.where, str(row.id), str(row.id), None
        return
    is_lines = path.suffix == SUFFIXES["jsonl"]
    if is_lines or (is_sheet(path) and _split(lines[0]) != _HEADER):
        # As `steepest ingest` takes it; rows that no one has filled in are not labelled.
        for row in filter(lambda row: row.answered, (read_jsonl if is_lines else read_csv)(path)):
            label = None if row.empty else str(row.label).strip()
            yield row.where, str(row.id), str(row.id), label
        return
    for number, line in enumerate(lines, start=1):
        name, label = _split(line)
        if not line or (number == 1 and (name, label) == _HEADER):
            continue
        if line in known:
            # A name may itself contain a comma: then the rest is no class.
            name, label = line, None
        yield f"line {number}", line, name, label


def _sample(name: str, line: str, known: Mapping[str, SampleId] | None) -> SampleId:
    """Return the id that a line begins with."""
    if known is None:
        try:
            return int(name)
        except ValueError:
            raise InputError(f"an index, or index,class is needed; not {line!r}") from None
    if name not in known:
        either = f"neither {line!r} nor {name!r} is" if line != name else f"{name!r} is not"
        raise InputError(f"{either} in the pool: give paths as they are below --pool")
    return known[name]


def _class_number(label: str, names: tuple[str, ...]) -> int:
    """Return the number of a class; where one is named by a number, its name counts."""
    if names:
        by_number = label.isdecimal() and label not in names
        return Vocabulary(CLASSIFICATION, names).number(int(label) if by_number else label)
    try:
        return int(label)
    except ValueError:
        raise InputError(
            f"class {label!r} is no number: give its number, or the names of all classes in the "
            "model's order by --classes cat,dog"
        ) from None


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not text"
        raise InputError(f"--labelled {path} cannot be read ({reason})") from error


def _split(line: str) -> tuple[str, str | None]:
    cells = next(csv.reader([line]), [line])
    if len(cells) < 2:
        return cells[0] if cells else line, None
    return ",".join(cells[:-1]), cells[-1].strip()
