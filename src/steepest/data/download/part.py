"""A file that is not whole yet: the bytes so far, and what they are a part of."""

from __future__ import annotations

import json
import os
from pathlib import Path

from steepest.core.files import write_atomically
from steepest.core.parsing import parse_json
from steepest.data.download.disk import explain_write_error, format_bytes
from steepest.errors import DataError


class PartFile:
    """``NAME.part`` beside the target, and ``NAME.part.json`` with the version it belongs to.

    The notes are on the disk before the first byte, so whatever a kill leaves behind is a
    beginning of the version that they name.

    Args:
        target: Where the whole file will be.
        url: Where it comes from; a part of another address is dropped.

    Attributes:
        path: The part.
        validator: The server's ETag or date of this version; empty if it gives none.
        total_bytes: The size of the whole file, if the server told.
        pieced: Whether the bytes came in more than one answer.
    """

    def __init__(self, target: Path, url: str) -> None:
        self.path = target.with_name(target.name + ".part")
        self._target = target
        self._notes = target.with_name(target.name + ".part.json")
        self._url = url
        self.validator = ""
        self.total_bytes: int | None = None
        self.pieced = self._read_notes() and self.size_bytes > 0
        if not self.pieced:
            self.discard()

    @property
    def size_bytes(self) -> int:
        """Number of bytes downloaded so far."""
        try:
            return self.path.stat().st_size
        except FileNotFoundError:
            return 0

    def begin(self, validator: str, total_bytes: int | None) -> None:
        """Start from nothing with a version of the file.

        Raises:
            DataError: If it cannot be written.
        """
        self.discard()
        self.validator, self.total_bytes = validator, total_bytes
        notes = {"url": self._url, "validator": validator, "total_bytes": total_bytes}
        write_atomically(self._notes, json.dumps(notes) + "\n")

    def append(self, data: bytes) -> None:
        """Write further bytes; they are with the system when this returns.

        Raises:
            DataError: If the disk is full or refuses; the part stays for the next try.
        """
        try:
            with self.path.open("ab", buffering=0) as file:
                while data:
                    data = data[file.write(data) :]
        except OSError as error:
            kept = f"{format_bytes(self.size_bytes)} are kept in {self.path.name}"
            raise explain_write_error(self._target, error, kept) from error

    def discard(self) -> None:
        """Forget everything.

        Raises:
            DataError: If the files cannot be removed.
        """
        self.validator, self.total_bytes, self.pieced = "", None, False
        try:
            self.path.unlink(missing_ok=True)
            self._notes.unlink(missing_ok=True)
        except OSError as error:
            raise explain_write_error(self.path, error) from error

    def finish(self) -> None:
        """Make the part the whole file.

        Raises:
            DataError: If that fails.
        """
        try:
            with self.path.open("ab") as file:
                os.fsync(file.fileno())
            self.path.replace(self._target)
            self._notes.unlink(missing_ok=True)
        except OSError as error:
            raise explain_write_error(self._target, error) from error

    def _read_notes(self) -> bool:
        """Read what the part belongs to; say whether it is a part of this file."""
        try:
            notes = parse_json(self._notes.read_bytes())
        except FileNotFoundError:
            return False
        except (OSError, ValueError) as error:
            if isinstance(error, OSError):
                raise DataError(f"{self._notes}: cannot be read ({error.strerror})") from error
            return False
        if not isinstance(notes, dict) or notes.get("url") != self._url:
            return False
        validator, total = notes.get("validator"), notes.get("total_bytes")
        if not isinstance(validator, str) or not (total is None or type(total) is int):
            return False
        self.validator, self.total_bytes = validator, total
        return True
