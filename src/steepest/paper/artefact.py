"""Base class of the paper's tables and figures."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

from steepest.core.registry import Registry
from steepest.errors import UnknownNameError
from steepest.paper.needed_runs import NEEDS, Need
from steepest.paper.page_parts import Part, Row, rows_table
from steepest.paper.published_numbers import Published
from steepest.paper.workspace import Workspace


@dataclass(frozen=True)
class Findings:
    """Results, ready for JSON.

    Attributes:
        rows: One measured or published number each. Columns of their own say what it is about
            (``data``, ``method``, ``labels``, ``cycle`` ...); ``ours``, ``sd``, ``n``, ``seeds``,
            ``paper``, ``difference`` and ``source`` are in all artefacts. Rows become the CSV.
        notes: Remarks for the reader, a sentence each.
        missing: The missing parts and their remedies, a sentence each.
        more: Anything else that ``show`` needs, as plain tables and lists.
    """

    rows: tuple[Row, ...] = ()
    notes: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    more: Mapping[str, Any] = field(default_factory=dict)


class Artefact(ABC):
    """A table or figure of the paper.

    Attributes:
        name: The name users type; set by the ``artefact`` decorator.
        title: Its title, in one line.
        paper: Its place in the paper, such as ``"Table 1"``.
        aliases: Other names that users may type.
    """

    name: ClassVar[str] = ""
    title: ClassVar[str] = ""
    paper: ClassVar[str] = ""
    aliases: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def needs(self) -> tuple[Need, ...]:
        """Return the runs it is made from."""

    @abstractmethod
    def compute(self, work: Workspace, published: Published) -> Findings:
        """Make it from the runs that are complete; ``produce`` tells of those that are not."""

    def show(self, findings: Findings) -> tuple[Part, ...]:
        """Return tables and figures for the page; by default one table of all rows."""
        return (rows_table(self.title, findings.rows),)


ARTEFACTS: Registry[type[Artefact]] = Registry("artefact", "steepest.paper.artefacts")
"""Artefacts by name."""

A = TypeVar("A", bound=type[Artefact])


def artefact(name: str) -> Callable[[A], A]:
    """Return a decorator that files an artefact under a name."""

    def file(kind: A) -> A:
        kind.name = name
        ARTEFACTS.register(name)(kind)
        NEEDS.register(name)(lambda: kind().needs())
        return kind

    return file


def all_artefacts() -> tuple[Artefact, ...]:
    """Return every artefact, in the order of the paper."""
    made = [ARTEFACTS.get(name)() for name in ARTEFACTS.names()]
    return tuple(sorted(made, key=_place))


def _place(one: Artefact) -> tuple[int, str, str]:
    """Return the sort key of an artefact: as in the paper, additions last."""
    first = one.paper.partition(" ")[0]
    kinds = ("Figure", "Table", "Equations", "Appendix")
    return (kinds.index(first) if first in kinds else len(kinds), one.paper, one.name)


def find_artefact(name: str) -> Artefact:
    """Return the artefact of a name or alias.

    Raises:
        UnknownNameError: With the nearest name as the remedy.
    """
    everything = all_artefacts()
    for one in everything:
        if name.lower() in (one.name, *one.aliases):
            return one
    known = [word for one in everything for word in (one.name, *one.aliases)]
    raise UnknownNameError("artefact", name, [*known, "all"])
