"""Checks on a copy of a data set that readers share, and the remedies in their messages."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import numpy.typing as npt

from steepest.data.base import DATA_VARIABLE, data_root
from steepest.data.catalogue import Holding
from steepest.errors import DataError, UnknownNameError


def describe_first_step() -> str:
    """Return the words before "run `steepest data get`" that name what it needs, if anything."""
    return f"set {DATA_VARIABLE} to a folder for data sets and " if data_root() is None else ""


@contextmanager
def complete_copy(holding: Holding, root: Path | None) -> Iterator[Path]:
    """Yield the folder of data sets; errors about its files end with the remedy.

    Raises:
        DataError: If no folder is known.
    """
    remedy = (
        f"run `steepest data get {holding.name}`, or set {DATA_VARIABLE} to the folder that holds "
        f"{holding.holds}"
    )
    if root is None:
        missing = f"{holding.short_title} is not in the package"
        raise DataError(f"{missing}; {describe_first_step()}{remedy}")
    with remedy_added(remedy):
        yield root


@contextmanager
def remedy_added(remedy: str) -> Iterator[None]:
    """Add the remedy to every ``DataError`` that is raised inside."""
    try:
        yield
    except DataError as error:
        raise DataError(f"{error}; {remedy}") from error


def check_choice(option: str, value: str, known: tuple[str, ...]) -> None:
    """Refuse a value that an option does not have.

    Raises:
        UnknownNameError: With the nearest value as the remedy.
    """
    if value not in known:
        raise UnknownNameError(option, value, known)


def check_md5(path: Path, md5: str) -> None:
    """Refuse any file but the official one.

    Raises:
        DataError: If its MD5 sum is another one, or it cannot be read.
    """
    try:
        with path.open("rb") as file:
            found = hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False))
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error})") from error
    if found.hexdigest() != md5:
        raise DataError(f"{path}: MD5 is {found.hexdigest()}, not {md5}: truncated or damaged")


def check_names(names: tuple[str, ...], count: int, where: str) -> None:
    """Refuse another number of classes.

    Raises:
        DataError: With their number.
    """
    if len(set(names)) != count or len(names) != count:
        raise DataError(f"{where}: {len(set(names))} classes instead of {count}")


def check_count(found: int, count: int, where: str) -> None:
    """Refuse another number of images.

    Raises:
        DataError: With their number.
    """
    if found != count:
        raise DataError(f"{where}: {found} images instead of {count}")


def check_labels(
    labels: npt.NDArray[np.int64], count: int, classes: int, where: str, *, balanced: bool = False
) -> None:
    """Refuse labels that a complete copy would not have.

    Args:
        labels: Of one split [N].
        count: How many there must be.
        classes: The number of classes.
        where: The file for error messages.
        balanced: Whether every class must have equally many.

    Raises:
        DataError: If there are more or fewer, one is no class, or a class is too small.
    """
    check_count(len(labels), count, where)
    low, high = int(labels.min()), int(labels.max())
    if low < 0 or high >= classes:
        raise DataError(f"{where}: a label is outside 0..{classes - 1} ({low} to {high} found)")
    sizes = np.bincount(labels, minlength=classes)
    if balanced and (sizes != count // classes).any():
        raise DataError(f"{where}: the {classes} classes are not of equal size")
    if not sizes.all():
        raise DataError(f"{where}: no image of class {int(sizes.argmin())}")
