"""What the disk says of a file, from which a later one of its name is told without reading it."""

from __future__ import annotations

import os
import sqlite3
from typing import NamedTuple


class Stamp(NamedTuple):
    """Size, date and place of a file.

    A size and a date can be those of another file: renamed files keep both. What the disk counts by
    itself, the time of the last change of name or rights and the number of the file, they do not
    keep. Folders that change their names leave the files' times alone, and not their numbers.

    Attributes:
        size_bytes: The size.
        changed_ns: When the content was changed last, in nanoseconds; programs may set it.
        place: The number of the file and when its entry was changed; empty in projects of earlier
            versions.
    """

    size_bytes: int
    changed_ns: int
    place: str

    @classmethod
    def of(cls, status: os.stat_result) -> Stamp:
        """Return the stamp of a file that the disk was asked about."""
        return cls(status.st_size, status.st_mtime_ns, f"{status.st_ino:x}-{status.st_ctime_ns:x}")

    @classmethod
    def of_row(cls, row: sqlite3.Row) -> Stamp:
        """Return what was noted of an image's file."""
        return cls(row["size_bytes"], row["changed_ns"], row["place"])
