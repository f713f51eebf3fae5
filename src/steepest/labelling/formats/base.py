"""A format of label files: what a new one has to offer, and where all are found by name."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from steepest.core.parsing import parse_json
from steepest.core.registry import Registry
from steepest.core.seeds import SampleId
from steepest.errors import InputError, first_line

Reader = Callable[[Path], Iterator["Row"]]
"""A function that reads the rows of a file."""

Map = npt.NDArray[np.uint8]
"""Class numbers [H, W], 255 where no class is known."""

_NOT_SKIPPED = frozenset({"false", "no", "0"})
"""Values of an unticked box in spreadsheets."""


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
        """Whether it has no label."""
        return self.label is None or (isinstance(self.label, str) and not self.label.strip())

    @property
    def answered(self) -> bool:
        """Whether it has a label or a skip."""
        return bool(self.skip) or not self.empty


def skip_reason(text: str) -> str:
    """Return why a sample is skipped; empty if what is written says that it is not."""
    reason = text.strip()
    return "" if reason.lower() in _NOT_SKIPPED else reason


@dataclass(frozen=True)
class LabelSet:
    """The labels of a project, for a file.

    Attributes:
        classes: The names of all classes, in their order.
        labels: The classes of each labelled sample; none if it has none of them.
        photos: The folder of the images; None if samples are no files.
        maps: The label maps of a segmentation project; ``labels`` is then empty.
        multi_label: Whether a sample may have any number of classes.
    """

    classes: tuple[str, ...]
    labels: Mapping[SampleId, tuple[str, ...]]
    photos: Path | None = None
    maps: Iterable[tuple[SampleId, Map]] = ()
    multi_label: bool = False


class LabelFormat(ABC):
    """One format of label files.

    Attributes:
        suffixes: How its files' names end, if that is enough to tell it.
        multi_label: Whether a sample can have several classes.
        empty: Whether it can say that a sample has none of the classes.
        maps: Whether it holds label maps.
        labels: Whether it holds classes of whole samples.
        stems: Whether it leaves out the endings of file names.
    """

    suffixes: ClassVar[tuple[str, ...]] = ()
    multi_label: ClassVar[bool] = True
    empty: ClassVar[bool] = False
    maps: ClassVar[bool] = False
    labels: ClassVar[bool] = True
    stems: ClassVar[bool] = False

    @abstractmethod
    def write(self, labels: LabelSet, path: Path) -> None:
        """Write labels to a file or folder, whole or not at all.

        Raises:
            InputError: If they cannot be written there, or not in this format.
        """

    @abstractmethod
    def read(self, path: Path) -> Iterator[Row]:
        """Yield what a file or folder says of each sample; an unlabelled one has an empty row.

        Raises:
            InputError: If it is damaged, of another format, or holds boxes.
        """


FORMATS: Registry[type[LabelFormat]] = Registry("format of labels", "steepest.labelling.formats")


def read_table(path: Path, format_name: str, keys: Iterable[str]) -> dict[str, object]:
    """Read a file that holds one JSON object.

    Raises:
        InputError: If it is none, or lacks one of the keys.
    """
    try:
        table = parse_json(read_text(path))
    except ValueError as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path}: is no JSON ({first_line(error)})") from error
    missing = [key for key in keys if not isinstance(table, dict) or key not in table]
    if missing:
        raise InputError(f"{path}: has no {missing[0]!r}, so it is no file of {format_name}")
    found: dict[str, object] = table
    return found


def entries_of(table: Mapping[str, object], key: str, path: Path) -> list[dict[str, object]]:
    """Return a list of objects in a table.

    Raises:
        InputError: If it is something else.
    """
    found = table[key]
    if not isinstance(found, list) or not all(isinstance(entry, dict) for entry in found):
        raise InputError(f"{path}: {key!r} is no list of objects; export it again")
    return found


def class_name(names: Mapping[Any, object], number: object, where: str) -> str:
    """Return the name of a class that is given by its number.

    Raises:
        InputError: If there is none.
    """
    name = names.get(number) if isinstance(number, (int, str)) else None
    if not isinstance(name, str):
        raise InputError(f"{where}: class {number!r} is not in its list of classes")
    return name


def boxes_refused(where: str, what: str) -> InputError:
    """Return the error for shapes, which are no labels of whole samples."""
    return InputError(
        f"{where}: is {what}, and only labels of whole images can be read; export classification "
        "labels instead"
    )


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
