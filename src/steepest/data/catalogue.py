"""Catalogue of data sets: files on disk, source and terms of use.

Each reader adds its own entry. A checksum stands there only if the publisher's file is known to
have it. Where there is none, the sum of what was downloaded is shown, and the archive's own checks
have to do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from steepest.core.registry import Registry


class Source(StrEnum):
    """Ways to obtain a data set."""

    BUILT_IN = "built in"
    SIMULATED = "simulated"
    DOWNLOAD = "download"
    BY_HAND = "by hand"


@dataclass(frozen=True)
class Unpacking:
    """A folder of an archive that is wanted on the disk.

    Attributes:
        folder: Its path in the archive.
        target: The name in the data folder.
        inner: The archive within the archive that holds it, if there is one.
        nested: Whether its files are archives, each of which becomes a folder.
        sorted_by: The official file that says which class's folder each file belongs to, if it
            is not the archive itself.
    """

    folder: str
    target: str
    inner: str = ""
    nested: bool = False
    sorted_by: str = ""


@dataclass(frozen=True)
class OfficialFile:
    """A file as its publisher gives it out.

    Attributes:
        name: Its name in the data folder.
        url: Where it is; empty if an account is needed.
        md5: Its MD5 sum, if one is published.
        size_bytes: Its size, if it is known.
        unpacking: What is taken out of it; None if the data set is read from the file itself.
    """

    name: str
    url: str = ""
    md5: str | None = None
    size_bytes: int | None = None
    unpacking: Unpacking | None = None


@dataclass(frozen=True)
class Layout:
    """One way in which a data set may lie in the data folder.

    Attributes:
        paths: What belongs together.
        options: The reader's options that read it; empty if it is read without any.
    """

    paths: tuple[str, ...]
    options: tuple[tuple[str, str], ...] = ()

    def is_in(self, root: Path) -> bool:
        """Say whether all of it is under a folder."""
        return all((root / path).exists() for path in self.paths)


@dataclass(frozen=True)
class Holding:
    """One data set of the catalogue.

    Attributes:
        name: The name it is loaded by.
        title: Its title.
        task: What is learned from it.
        train_count: Number of training samples of a complete copy.
        test_count: Number of test samples.
        classes: Number of classes.
        source: How to obtain it.
        terms: The publisher's terms.
        site: The publisher's page.
        files: The official files.
        layouts: The layouts accepted in the data folder; the first one found is used.
        holds: The required content of the data folder, as worded in errors.
        counts: Further numbers of a complete copy, by name.
    """

    name: str
    title: str
    task: str
    train_count: int
    test_count: int
    classes: int
    source: Source
    terms: str
    site: str = ""
    files: tuple[OfficialFile, ...] = ()
    layouts: tuple[Layout, ...] = ()
    holds: str = ""
    counts: Mapping[str, int] = field(default_factory=dict)

    @property
    def short_title(self) -> str:
        """The title up to the colon."""
        return self.title.partition(":")[0]

    def md5_of(self, name: str) -> str:
        """Return the published MD5 sum of one of the official files."""
        return next(file.md5 or "" for file in self.files if file.name == name)


_HOLDINGS: Registry[Holding] = Registry("data set", "steepest.data")


def add_to_catalogue(holding: Holding) -> Holding:
    """Add a reader's entry, and return it."""
    return _HOLDINGS.register(holding.name)(holding)


def catalogue() -> tuple[Holding, ...]:
    """Return the entries of all data sets that come with the package, by name."""
    return tuple(_HOLDINGS.get(name) for name in _HOLDINGS.names())


def find_holding(name: str) -> Holding:
    """Return a data set's entry.

    Raises:
        UnknownNameError: If the catalogue does not have it.
    """
    return _HOLDINGS.get(name)


def find_layout(holding: Holding, root: Path) -> Layout | None:
    """Return the files of a data set; None if they are not under ``root``."""
    return next((layout for layout in holding.layouts if layout.is_in(root)), None)


def find_full_layout(holding: Holding, root: Path) -> Layout | None:
    """Return the files of a data set with default options; None if they are not under ``root``.

    A compact copy, which its reader must be asked for, does not stand in for the official files.
    """
    layout = find_layout(holding, root)
    return None if layout is None or layout.options else layout
