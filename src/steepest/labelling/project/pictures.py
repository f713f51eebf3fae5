"""Pictures and texts of samples, and notes on those that cannot be shown."""

from __future__ import annotations

import hashlib
import io
import re
import secrets
import sqlite3
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from steepest.core.devices import usable_cores
from steepest.core.files import write_atomically
from steepest.errors import DataError, InputError
from steepest.labelling.project.consensus import reopen
from steepest.labelling.project.copies import let_others_follow
from steepest.labelling.project.decoding import read_picture
from steepest.labelling.project.history import find_image
from steepest.labelling.project.scanning import check_there
from steepest.labelling.project.settings import Settings
from steepest.labelling.project.source import (
    AccessError,
    GoneError,
    SampleFolder,
    Source,
    read_text,
)
from steepest.labelling.project.store import Store

SIDES = range(16, 2049)
"""The sides in pixels that a picture may be asked for."""

_QUALITY = 88
_MOST_CACHED_BYTES = 512 << 20
_WRITES_BETWEEN_LOOKS = 256
_MOST_AT_ONCE = 4
_CACHED = re.compile(r"[0-9a-f]{32}\.jpg")
_CACHE_BYTES = 16


@dataclass(frozen=True)
class Picture:
    """A picture as a browser takes it.

    Attributes:
        data: The file's bytes.
        media_type: ``"image/jpeg"``.
        etag: Changes with the file.
    """

    data: bytes
    media_type: str
    etag: str


class Pictures:
    """Shows samples.

    Args:
        store: The project's file.
        source: The location of the samples.
        settings: Returns the current settings.
        clock: Returns the present time.
    """

    def __init__(
        self,
        store: Store,
        source: Source,
        settings: Callable[[], Settings],
        clock: Callable[[], float],
    ) -> None:
        self._store = store
        self._source = source
        self._settings = settings
        self._clock = clock
        # A folder that nobody can know before it is made: what lies in others may have come with
        # the project, from anybody, and show what is not in the file.
        self._cache = store.path.parent / "thumbnails" / secrets.token_hex(_CACHE_BYTES)
        self._writes = 0
        self._guard = threading.Lock()
        # A large file takes up to a gigabyte while it is decoded, and a page asks for many.
        self._decoding = threading.BoundedSemaphore(min(_MOST_AT_ONCE, usable_cores()))

    def path(self, sample: str) -> Path:
        """Return where a sample's file is, within the folder.

        Raises:
            InputError: If there is no such sample.
            DataError: If the file is gone, or is a link out of the folder.
        """
        with self._store.reading() as connection:
            find_image(connection, sample)
        return SampleFolder(self._source.path).locate(sample)

    def text(self, sample: str) -> str:
        """Return the text of a sample.

        Raises:
            InputError: If there is no such sample.
            DataError: If it cannot be shown; it is then marked as ``thumbnail`` does.
        """
        row = self._find(sample)
        try:
            text = read_text(self._source, sample)
        except DataError as error:
            self._note_failure(sample, error)
            raise
        self._note_found(row)
        return text

    def thumbnail(self, sample: str, side: int = 512) -> Picture:
        """Return a sample as a JPEG file no side of which is longer than asked for.

        Raises:
            InputError: If there is no such sample, or the side cannot be used.
            DataError: If it cannot be shown. What is damaged is then marked so and not given out
                until its file changes; what may pass is tried again.
        """
        if side not in SIDES:
            raise InputError(f"side is {side}; use {SIDES.start} to {SIDES.stop - 1} pixels")
        row = self._find(sample)
        if self._source.kind == "text":
            raise InputError(f"sample {sample!r} is a text, which has no picture")
        try:
            changed = tuple(self._source.stamp(sample))
            path = self.path(sample)
            etag = hashlib.sha256(f"{sample}\0{changed}\0{side}".encode()).hexdigest()[:32]
            cached = self._cache / f"{etag}.jpg"
            data = _read(cached) or self._make(path, side, cached)
        except DataError as error:
            self._note_failure(sample, error)
            raise
        self._note_found(row)
        return Picture(data, "image/jpeg", etag)

    def _find(self, sample: str) -> sqlite3.Row:
        with self._store.reading() as connection:
            row = find_image(connection, sample)
        if row["unreadable"] is not None:
            raise DataError(row["unreadable"])
        return row

    def _note_failure(self, sample: str, error: DataError) -> None:
        note_failure(self._store, self._source, sample, error, self._settings())
        if isinstance(error, AccessError):
            let_rest(self._store, sample, self._clock())

    def _note_found(self, row: sqlite3.Row) -> None:
        if row["missing"]:
            note_found(self._store, row["id"], self._settings())

    def is_away(self, sample: str) -> bool:
        """Decide whether a sample is gone, and all others with it."""
        try:
            self._source.stamp(sample)
        except GoneError:
            try:
                check_there(self._source, self._store)
            except DataError:
                return True
        except DataError:
            return False
        return False

    def _make(self, path: Path, side: int, cached: Path) -> bytes:
        with self._decoding:
            made = _read(cached)  # by another who waited for the same
            if made is not None:
                return made
            file = io.BytesIO()
            read_picture(path, side).save(file, "JPEG", quality=_QUALITY)
        data = file.getvalue()
        try:
            write_atomically(cached, data)
        except InputError:
            return data  # a full disk costs time, not the picture
        with self._guard:
            self._writes += 1
            writes = self._writes
        if writes == 1:
            for earlier in set(self._cache.parent.iterdir()) - {self._cache}:
                trim(earlier, 0)
        if writes % _WRITES_BETWEEN_LOOKS == 0:
            trim(self._cache, _MOST_CACHED_BYTES)
        return data


def trim(cache: Path, most_bytes: int) -> None:
    """Remove the oldest files of a folder of pictures until it is well within its limit.

    What has no name of ours is none of the cache's: the folder may have come from elsewhere.
    """
    if cache.is_symlink() or not cache.is_dir():
        return
    files = []
    for path in cache.iterdir():
        if not _CACHED.fullmatch(path.name):
            continue
        try:
            status = path.stat()
        except OSError:
            continue
        files.append((status.st_mtime_ns, status.st_size, path))
    total = sum(size for _, size, _ in files)
    if total > most_bytes:
        for _, size, path in sorted(files):
            path.unlink(missing_ok=True)
            total -= size
            if total <= most_bytes * 3 // 4:
                break
    if not most_bytes:
        with suppress(OSError):  # it holds what is not ours
            cache.rmdir()


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None


REST_SECONDS = 60.0
"""How long an image that cannot be read at the moment is not given out."""


def note_failure(
    store: Store, source: Source, sample: str, error: DataError, settings: Settings
) -> None:
    """Note why a sample cannot be shown, unless that may pass.

    What is damaged is not given out until its file changes; what is gone, until it is back.

    Raises:
        DataError: If the whole folder is away: then nothing is noted.
    """
    if isinstance(error, AccessError):
        return
    change = "unreadable = :reason"
    if isinstance(error, GoneError):
        check_there(source, store)
        if source.has(sample):
            return
        change = "missing = 1"
    with store.writing() as connection:
        number = find_image(connection, sample)["number"]
        connection.execute(
            f"UPDATE images SET {change} WHERE number = :number",  # noqa: S608
            {"reason": str(error), "number": number},
        )
        _let_go(connection, number)
        reopen(connection, settings.overlap, number)
        let_others_follow(connection, settings, number)


def note_found(store: Store, sample: str, settings: Settings) -> None:
    """Note that a file that was missing is back."""
    with store.writing() as connection:
        number = find_image(connection, sample)["number"]
        connection.execute("UPDATE images SET missing = 0 WHERE number = ?", (number,))
        reopen(connection, settings.overlap, number)


def let_rest(store: Store, sample: str, now: float) -> None:
    """Give out other samples for a while: this one cannot be read at the moment."""
    with store.writing() as connection:
        number = find_image(connection, sample)["number"]
        connection.execute(
            "UPDATE images SET rests_until = ? WHERE number = ?", (now + REST_SECONDS, number)
        )
        _let_go(connection, number)


def _let_go(connection: sqlite3.Connection, number: int) -> None:
    connection.execute("DELETE FROM assignments WHERE image = ?", (number,))
