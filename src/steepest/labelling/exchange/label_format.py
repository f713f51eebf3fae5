"""A format of label files: what a new one has to offer, and where all are found by name."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from steepest.core.parsing import parse_json
from steepest.core.registry import Registry
from steepest.core.seeds import SampleId
from steepest.errors import InputError, first_line
from steepest.labelling.exchange.answers import Map
from steepest.labelling.exchange.rows import Row, read_text


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


FORMATS: Registry[type[LabelFormat]] = Registry(
    "format of labels", "steepest.labelling.exchange.formats"
)


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
