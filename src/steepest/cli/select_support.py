"""What a strategy takes beside the model and the pool, as given on the command line."""

from __future__ import annotations

import argparse
import csv
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from torch import nn

from steepest.errors import InputError
from steepest.pool import Pool
from steepest.strategies.support import Support

_HEADER = ["id", "label"]


def add_support_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of labelled samples and further models."""
    parser.add_argument(
        "--labelled",
        type=Path,
        metavar="FILE",
        help="samples that are labelled already, to leave out: one id per line, or id,label with "
        "the number of the class, from which some strategies learn",
    )
    parser.add_argument(
        "--member",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="weights of another model of a committee, for qbc; may be repeated",
    )
    parser.add_argument(
        "--previous", type=Path, metavar="FILE", help="weights of the cycle before, for tod"
    )


def read_support(
    arguments: argparse.Namespace,
    labels: Mapping[Any, int],
    load: Callable[[Path], nn.Module],
    loop: Pool | None,
) -> Support:
    """Return what was given, with the labels of a loop.

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
    path: Path | None, *, by_name: bool
) -> tuple[list[int | str] | None, dict[int | str, int]]:
    """Read which samples are labelled, and their classes where the file has them.

    Args:
        path: One id per line, or ``id,label``; a first line that says so is passed over.
        by_name: Whether ids are names, and not numbers.

    Returns:
        The ids, or None without a file, and the classes by id.

    Raises:
        InputError: Naming the line that cannot be read.
    """
    if path is None:
        return None, {}
    ids: list[int | str] = []
    labels: dict[int | str, int] = {}
    for number, line in enumerate(_lines(path), start=1):
        if not line:
            continue
        name, label = _split(line)
        if number == 1 and [name, label] == _HEADER:
            continue
        try:
            # A name may hold a comma itself: then what follows is no class.
            sample: int | str = name if by_name else int(name)
            if label is not None:
                labels[sample] = int(label)
        except ValueError:
            if not by_name:
                raise InputError(
                    f"--labelled {path}, line {number}: an index, or index,class is needed; "
                    f"not {line!r}"
                ) from None
            sample = line
        ids.append(sample)
    return ids, labels


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not text"
        raise InputError(f"--labelled {path} cannot be read ({reason})") from error


def _split(line: str) -> tuple[str, str | None]:
    cells = next(csv.reader([line]), [line])
    if len(cells) < 2:
        return cells[0] if cells else line, None
    return ",".join(cells[:-1]), cells[-1].strip()
