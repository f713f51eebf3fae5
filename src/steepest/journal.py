"""Append-only JSON lines that survive a kill at any moment.

Each line is one JSON object whose last key, ``crc``, is the checksum of the rest. An entry
counts once its line is whole. A torn *last* line is what a crash leaves behind: it is set aside
in ``NAME.dropped`` and reported. Anything wrong further up is damage and an error: nothing is
repaired by guessing.
"""

from __future__ import annotations

import io
import json
import os
import warnings
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from steepest.errors import DroppedEntryWarning, JournalError
from steepest.parsing import parse_json

Entry = dict[str, Any]


def read_journal(path: Path) -> tuple[list[Entry], bytes]:
    """Read all whole entries of a journal without changing it.

    Returns:
        The entries in order, and the bytes of a torn last line (empty if there is none).

    Raises:
        JournalError: If a line before the last is damaged.
    """
    try:
        data = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return [], b""
    except OSError as error:
        raise JournalError(f"{path}: cannot be read ({error.strerror or error})") from error
    return decode_journal(data, path)


def decode_journal(data: bytes, path: Path) -> tuple[list[Entry], bytes]:
    """Decode the bytes of a journal, as ``read_journal`` does for a file.

    Args:
        data: The whole journal.
        path: Where it is from, for messages.

    Raises:
        JournalError: If a line before the last is damaged.
    """
    lines = data.split(b"\n")
    tail = lines.pop()
    entries: list[Entry] = []
    for number, line in enumerate(lines, start=1):
        entry = _decode(line)
        if entry is None:
            if number == len(lines) and not tail:
                return entries, line + b"\n"
            raise JournalError(
                f"{path}: line {number} is damaged; restore the file from a copy, "
                f"or cut it off before that line to go on from entry {number - 1}"
            )
        entries.append(entry)
    return entries, tail


class Journal:
    """One growing file of entries.

    Args:
        path: The file; it is created with the first entry.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.entries, torn = read_journal(path)
        if torn:
            self._set_aside(torn)

    def append(self, entry: Mapping[str, Any]) -> None:
        """Write one entry and return once it is on the disk.

        Raises:
            JournalError: If it cannot be written; the file is then as before.
        """
        line = _encode(entry)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("ab", buffering=0) as file:
                _write_whole(file, line)
        except OSError as error:
            raise JournalError(
                f"{self.path}: cannot be written ({error.strerror or error}); make room and go on"
            ) from error
        self.entries.append(dict(entry))

    def _set_aside(self, torn: bytes) -> None:
        keep = self.path.with_name(self.path.name + ".dropped")
        with keep.open("ab") as file:
            file.write(torn.rstrip(b"\n") + b"\n")
        with self.path.open("r+b") as file:
            file.truncate(self.path.stat().st_size - len(torn))
        warnings.warn(
            f"{self.path}: the last entry was half-written ({len(torn)} bytes) and is set aside "
            f"in {keep.name}; going on after entry {len(self.entries)}",
            DroppedEntryWarning,
            stacklevel=3,
        )


def _write_whole(file: io.FileIO, line: bytes) -> None:
    """Write a line and wait for the disk; after an error the file is as before.

    Half a line in front of the next entry would look like damage. A line that is whole when the
    user stops the program counts: it may be the fruit of hours.
    """
    before = file.tell()
    try:
        _write_all(file, line)
    except BaseException:
        file.truncate(before)
        raise
    try:
        os.fsync(file.fileno())
    except OSError:
        file.truncate(before)
        raise


def _write_all(file: io.FileIO, data: bytes) -> None:
    while data:
        data = data[file.write(data) :]


def _encode(entry: Mapping[str, Any]) -> bytes:
    body = json.dumps(entry, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    crc = zlib.crc32(body.encode())
    inner = body[:-1] + ("," if len(body) > 2 else "")
    return f'{inner}"crc":"{crc:08x}"}}\n'.encode()


def _decode(line: bytes) -> Entry | None:
    try:
        entry = parse_json(line)
    except ValueError:
        return None
    if not isinstance(entry, dict) or "crc" not in entry:
        return None
    crc = entry.pop("crc")
    body = json.dumps(entry, ensure_ascii=False, separators=(",", ":"))
    return entry if crc == f"{zlib.crc32(body.encode()):08x}" else None
