"""Append-only JSON lines that survive a kill at any moment.

Each line is one JSON object whose last key, ``chain``, is a digest of the rest and of all lines
before it, so that a line that is changed, missing, doubled or out of place is noticed. An entry
counts once its line is whole. A last line *without its end* is left by a crash: it is
set aside in ``NAME.dropped`` and reported. Anything else is damage and an error: nothing is
repaired by guessing.

Lines of older versions end with ``crc``, a checksum of each line alone. They are read as they are,
and the chain of the lines added since holds them too.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import warnings
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from steepest.core.parsing import parse_json
from steepest.errors import DroppedEntryWarning, JournalError

Entry = dict[str, Any]

_KEY = "chain"
_KEYS = (_KEY, "crc")


def read_journal(path: Path) -> tuple[list[Entry], bytes]:
    """Read all whole entries of a journal without changing it.

    Returns:
        The entries in order, and the bytes of a torn last line (empty if there is none).

    Raises:
        JournalError: If a line is damaged, or does not follow those before it.
    """
    found, torn = _read(path)
    return found.entries, torn


def encode_journal(entries: Iterable[Mapping[str, Any]]) -> bytes:
    """Return the bytes of a journal of these entries."""
    lines, link = [], ""
    for entry in entries:
        line, link = _encode(entry, link)
        lines.append(line)
    return b"".join(lines)


@dataclass
class _Chain:
    """The entries so far, and the state from which the next line continues."""

    entries: list[Entry] = field(default_factory=list)
    link: str = ""
    chained: bool = False

    def add(self, line: bytes) -> bool:
        """Take in a line without its end, if it is whole and follows those before it."""
        found = _decode(line)
        if found is None:
            return False
        entry, body, key, stated = found
        link = _link(self.link, body)
        if key == _KEY:
            whole = stated == link
        else:
            whole = not self.chained and stated == f"{zlib.crc32(body):08x}"
        if whole:
            self.entries.append(entry)
            self.link, self.chained = link, key == _KEY
        return whole


def decode_journal(data: bytes, path: Path) -> tuple[list[Entry], bytes]:
    """Decode the bytes of a journal, as ``read_journal`` does for a file.

    Args:
        data: The whole journal.
        path: The source, for messages.

    Raises:
        JournalError: If a line is damaged, or does not follow those before it.
    """
    found, torn = _follow(data, path)
    return found.entries, torn


def _read(path: Path) -> tuple[_Chain, bytes]:
    try:
        data = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return _Chain(), b""
    except OSError as error:
        raise JournalError(f"{path}: cannot be read ({error.strerror or error})") from error
    return _follow(data, path)


def _follow(data: bytes, path: Path) -> tuple[_Chain, bytes]:
    chain = _Chain()
    lines = data.split(b"\n")
    tail = lines.pop()
    for line in lines:
        if not chain.add(line):
            raise _damaged(path, chain)
    # All of an entry and one byte more is no line that was cut short: its end was changed.
    if tail and chain.add(tail[:-1]):
        chain.entries.pop()
        raise _damaged(path, chain)
    return chain, tail


def _damaged(path: Path, chain: _Chain) -> JournalError:
    count = len(chain.entries)
    remedy = "restore the file from a copy"
    if count:
        remedy += f", or cut it off before that line to go on from entry {count}"
    return JournalError(
        f"{path}: line {count + 1} is damaged, or lines before it are missing; {remedy}"
    )


class Journal:
    """One growing file of entries.

    Args:
        path: The file; it is created with the first entry.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._chain, torn = _read(path)
        if torn:
            self._set_aside(torn)

    @property
    def entries(self) -> list[Entry]:
        """All entries so far."""
        return self._chain.entries

    def append(self, entry: Mapping[str, Any]) -> None:
        """Write one entry and return once it is on the disk.

        Raises:
            JournalError: If it cannot be written; the file is then as before.
        """
        line, link = _encode(entry, self._chain.link)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("ab", buffering=0) as file:
                _write_whole(file, line)
        except OSError as error:
            raise JournalError(
                f"{self.path}: cannot be written ({error.strerror or error}); make room and go on"
            ) from error
        self._chain.entries.append(dict(entry))
        self._chain.link = link

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


def _encode(entry: Mapping[str, Any], before: str) -> tuple[bytes, str]:
    """Return an entry's line, and the link that it ends with."""
    body = _body(entry)
    link = _link(before, body)
    inner = body[:-1] + (b"," if len(body) > 2 else b"")
    return inner + f'"{_KEY}":"{link}"}}\n'.encode(), link


def _decode(line: bytes) -> tuple[Entry, bytes, str, object] | None:
    """Return an entry, its body, the last key of its line and its value; None if damaged."""
    try:
        entry = parse_json(line)
        if not isinstance(entry, dict) or not entry or (key := next(reversed(entry))) not in _KEYS:
            return None
        stated = entry.pop(key)
        return entry, _body(entry), key, stated
    except (ValueError, RecursionError):
        return None


def _body(entry: Mapping[str, Any]) -> bytes:
    return json.dumps(entry, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def _link(before: str, body: bytes) -> str:
    return hashlib.blake2b(before.encode() + body, digest_size=8).hexdigest()
