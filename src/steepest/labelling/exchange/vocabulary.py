"""The classes that people may answer with: names on paper, numbers in the pool."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from steepest.errors import InputError, UnknownNameError
from steepest.labelling.names import BAR, spellings, split_names
from steepest.pool.values import Label, check_text
from steepest.tasks.segmentation import IGNORED

CLASSIFICATION, MULTI_LABEL, SEGMENTATION = "classification", "multi-label", "segmentation"
KINDS = (CLASSIFICATION, MULTI_LABEL, SEGMENTATION)


@dataclass(frozen=True)
class Vocabulary:
    """The valid labels of one task.

    Attributes:
        task: ``"classification"``, ``"multi-label"`` or ``"segmentation"``.
        names: The classes' names [C]; a class's number is its place here.

    Raises:
        InputError: If a name is empty, there twice or cannot be written in a file.
    """

    task: str
    names: tuple[str, ...]

    def __post_init__(self) -> None:
        if self.task not in KINDS:
            raise UnknownNameError("task for labelling", self.task, KINDS)
        if not self.names:
            raise InputError("there are no classes; name at least one")
        if self.task == SEGMENTATION and len(self.names) > IGNORED:
            raise InputError(f"a label map holds {IGNORED} classes at most, not {len(self.names)}")
        for name in self.names:
            check_text(name, "class")
            if not name or name != name.strip() or not name.isprintable():
                raise InputError(f"class {name!r} is empty, or has spaces or line ends around it")
            if BAR in name:
                raise InputError(f"class {name!r} holds {BAR!r}, which separates classes")
        if len(set(self.names)) < len(self.names):
            twice = next(name for name in self.names if self.names.count(name) > 1)
            raise InputError(f"class {twice!r} is there twice; give each class once")

    def number(self, name: object) -> int:
        """Return the number of a class that is given by its name, or by its number.

        Raises:
            InputError: If there is no such class.
        """
        if isinstance(name, int) and not isinstance(name, bool):
            if not 0 <= name < len(self.names):
                raise InputError(f"there is no class {name}; use 0 to {len(self.names) - 1}")
            return name
        if not isinstance(name, str):
            raise InputError(f"{name!r} is no class; give the name of one")
        for spelling in spellings(name.strip()):
            if spelling in self.names:
                return self.names.index(spelling)
        raise UnknownNameError("class", name.strip(), self.names)

    def from_text(self, text: str) -> Label:
        """Read the label of one cell, such as ``cat``, ``cat|dog`` or ``cat;dog``."""
        if self.task != MULTI_LABEL:
            return self.number(text)
        return self.from_names(split_names(text, self.names))

    def from_names(self, names: Sequence[object]) -> Label:
        """Return the label of a sample with these classes.

        Raises:
            InputError: If a class is not known, or there are several where one is requested.
        """
        numbers = sorted({self.number(name) for name in names})
        if self.task == MULTI_LABEL:
            return numbers
        if len(numbers) != 1:
            raise InputError(f"{len(numbers)} classes where one is asked for; decide on one")
        return numbers[0]

    def from_json(self, value: object) -> Label:
        """Read a label of JSON: a name, a number, or a list of them."""
        if isinstance(value, list):
            return self.from_names(value)
        return self.from_text(value) if isinstance(value, str) else self.from_names([value])

    def to_names(self, label: Label) -> tuple[str, ...]:
        """Return the names of a label's classes."""
        if isinstance(label, str):
            return (label,)
        return tuple(self.names[c] for c in (label if isinstance(label, list) else [label]))

    def to_text(self, label: Label) -> str:
        """Return a label as ``from_text`` reads it."""
        return BAR.join(self.to_names(label)) or BAR
