"""Notes on files: the digest of their content, or the reason they are skipped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from steepest.core.journal import Journal, read_journal
from steepest.errors import InputError, JournalError
from steepest.features.store import refuse_links

_NAME = "files.jsonl"


@dataclass(frozen=True)
class Stamp:
    """File status that changes when a file is written.

    Attributes:
        size: In bytes.
        modified_ns: When it was written last.
    """

    size: int
    modified_ns: int

    @classmethod
    def of(cls, path: Path) -> Stamp:
        """Look at a file.

        Raises:
            OSError: If it is not there.
        """
        found = path.stat()
        return cls(found.st_size, found.st_mtime_ns)


@dataclass(frozen=True)
class Note:
    """Digest of a file, or the reason it is skipped.

    Attributes:
        stamp: Of the file as it was then.
        digest: Of its content.
        reason: Why it is no image that can be used; empty if it is one.
    """

    stamp: Stamp
    digest: str
    reason: str = ""


class FileNotes:
    """Notes on the files of one folder, which all backbones share.

    Args:
        folder: Where they are kept.
        writing: Whether notes will be added; the store beside them is locked meanwhile.

    Raises:
        InputError: If the notes are damaged, or lead elsewhere.
    """

    def __init__(self, folder: Path, *, writing: bool) -> None:
        self._path = folder / _NAME
        refuse_links(self._path, folder.parent)
        self._journal: Journal | None = None
        try:
            if writing:
                self._journal = Journal(self._path)
                entries = self._journal.entries
            else:
                entries, _ = read_journal(self._path)
            self._notes = {
                name: _from_row(row) for entry in entries for name, row in entry["files"].items()
            }
        except (JournalError, OSError, KeyError, TypeError, ValueError, AttributeError) as error:
            raise InputError(
                f"{self._path} is damaged ({error}): delete it, and the files are read again"
            ) from error

    def find(self, name: str, stamp: Stamp) -> Note | None:
        """Return the note on a file, unless it was written since."""
        note = self._notes.get(name)
        return note if note is not None and note.stamp == stamp else None

    def add(self, notes: Mapping[str, Note]) -> None:
        """Keep notes by relative path."""
        if self._journal is None or not notes:
            return
        self._journal.append({"files": {name: _to_row(note) for name, note in notes.items()}})
        self._notes.update(notes)


def _to_row(note: Note) -> list[Any]:
    return [note.stamp.size, note.stamp.modified_ns, note.digest, note.reason]


def _from_row(row: Any) -> Note:  # noqa: ANN401 - as read
    size, modified_ns, digest, reason = row
    return Note(Stamp(int(size), int(modified_ns)), str(digest), str(reason))
